import dataclasses
import json as standard

from attncli import __version__
from attncli.records import SCHEMA_VERSION, Definition, Finding, JsonObject, Report, Verdict, View
from attncli.render import renderer
from attncli.sanitize import sanitize_json

ADDED = ("heading", "names", "lowest_drawn", "measure", "pair", "metric", "heads")
"""Fields of metrics, views and findings that the first reports did not have: left out where they are empty, so that those
stay as they were."""


@renderer(endings=(".json",))
def json(report: Report) -> str:
    """The whole report as one strict JSON document: provenance, definitions, rows, verdicts."""
    text = standard.dumps(build_document(report), indent=1, ensure_ascii=False, allow_nan=False)
    return sanitize_json(text) + "\n"


def build_document(report: Report) -> JsonObject:
    """The report contract: provenance first, rows flat, nulls explained in their note."""
    head = {
        "schema_version": SCHEMA_VERSION,
        "study": report.study,
        "headline": report.headline,
        "attn_version": report.environment.get("attn") or __version__,
    }
    plain = ("command", "source", "input", "seeds", "environment")
    return {
        **head,
        **{name: getattr(report, name) for name in plain},
        "metrics": {name: convert_record_to_json(item) for name, item in report.metrics.items()},
        "findings": [convert_record_to_json(finding) for finding in report.findings],
        "rows": [row.flat() for row in report.rows],
        "views": [convert_record_to_json(view) for view in report.views],
        "warnings": report.warnings,
        "verdicts": [convert_gate_verdict_to_json(verdict) for verdict in report.verdicts],
    }


def convert_record_to_json(record: Definition | View | Finding) -> JsonObject:
    every = dataclasses.asdict(record)
    return {
        name: value
        for name, value in every.items()
        if value not in ("", None, ()) or name not in ADDED
    }


def convert_gate_verdict_to_json(verdict: Verdict) -> JsonObject:
    """The fields of a verdict; `stopped` is omitted where the check ran."""
    fields = dataclasses.asdict(verdict)
    return fields if verdict.stopped else {k: v for k, v in fields.items() if k != "stopped"}
