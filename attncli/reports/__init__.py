"""Finished reports: read from JSON, and compared. No model, no numpy.

>>> from attncli.records import Report, Row
>>> sink = Row("sink", 0.7, "1", layer=0, head=1)
>>> report = Report(study="heads", headline="", rows=(sink,), metrics={}, source={})
>>> from attncli.render import FORMATS
>>> from attncli.reports import from_json
>>> from_json(FORMATS["json"](report)).rows == report.rows
True
"""

from attncli.reports.reading import from_json, read_report, report_exists
from attncli.reports.row_pairs import RowPair, aggregate_pairs, pair_rows

__all__ = ["RowPair", "aggregate_pairs", "from_json", "pair_rows", "read_report", "report_exists"]
