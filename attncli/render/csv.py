import csv as standard
import io

from attncli.records import Report
from attncli.render._columns import columns


def csv(report: Report) -> str:
    """Comma-separated rows with a header line; what does not apply is empty."""
    buffer = io.StringIO()
    writer = standard.DictWriter(buffer, columns(report), lineterminator="\n")
    writer.writeheader()
    writer.writerows(row.flat() for row in report.rows)
    return buffer.getvalue()
