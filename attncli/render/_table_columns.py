"""The columns of the flat formats."""

from attncli.records import ROW_COLUMNS, Report


def list_report_columns(report: Report) -> list[str]:
    """The contract's columns, then the further keys in order of appearance."""
    return list(dict.fromkeys([*ROW_COLUMNS, *(key for row in report.rows for key in row.keys)]))
