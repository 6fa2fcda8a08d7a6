"""Finished reports: read from JSON, and compared. No model, no numpy.

provenance           the command line or call, and the versions that can change a number
json_to_dataclasses  JSON values as frozen records, each checked against its type
json_report_reading  saved reports
report_row_pairs     rows of two reports, and their differences with their noise
report_comparison    changes between two reports

>>> from attncli.records import Report, Row
>>> sink = Row("sink", 0.7, "1", layer=0, head=1)
>>> report = Report(study="inspect-model", headline="", rows=(sink,), metrics={}, source={})
>>> from attncli.render import FORMATS
>>> from attncli.reports.json_report_reading import parse_json_report
>>> parse_json_report(FORMATS["json"](report)).rows == report.rows
True
"""
