"""Finished reports: read from JSON, and compared. No model, no numpy."""

from attncli.reports.reading import from_json, read_report, report_exists
from attncli.reports.row_pairs import RowPair, aggregate_pairs, pair_rows

__all__ = ["RowPair", "aggregate_pairs", "from_json", "pair_rows", "read_report", "report_exists"]
