import json

from attncli.records import Report
from attncli.render import renderer
from attncli.sanitize import sanitize_json


@renderer(endings=(".jsonl",))
def jsonl(report: Report) -> str:
    """One JSON object a line, one line a number."""
    lines = (json.dumps(row.flat(), ensure_ascii=False, allow_nan=False) for row in report.rows)
    return "".join(sanitize_json(line) + "\n" for line in lines)
