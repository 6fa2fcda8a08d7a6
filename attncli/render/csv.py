import csv as standard
import io

from attncli.records import Report, Scalar
from attncli.render import renderer
from attncli.render._table_columns import list_report_columns
from attncli.sanitize import sanitize_value

FORMULA = ("=", "+", "-", "@", "＝", "＋", "－", "＠")
"""Characters that begin a formula in a spreadsheet, which may run it."""


@renderer(endings=(".csv",))
def csv(report: Report) -> str:
    """Comma-separated rows with a header line; what does not apply is empty."""
    report = sanitize_value(report)
    names = list_report_columns(report)
    buffer = io.StringIO()
    writer = standard.writer(buffer, lineterminator="\n")
    writer.writerow(map(escape_spreadsheet_formula, names))
    for row in report.rows:
        flat = row.flat()
        writer.writerow(escape_spreadsheet_formula(flat.get(name)) for name in names)
    return buffer.getvalue()


def escape_spreadsheet_formula(value: Scalar | None) -> Scalar | None:
    """Put an apostrophe before a text that would be a formula: spreadsheets hide it. Numbers stay
    numbers."""
    return f"'{value}" if isinstance(value, str) and value.lstrip().startswith(FORMULA) else value
