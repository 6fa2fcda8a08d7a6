"""Every format: whole outputs of a small report, and laws over all reports."""

import csv
import inspect
import io
import json
from typing import Any, NoReturn

import pytest
from hypothesis import given
from reports import HAND_MADE, reports
from rich.console import Console, ConsoleRenderable

from attncli import __version__
from attncli.records import SCHEMA_VERSION, Report, Row, View
from attncli.render import FORMATS
from attncli.sanitize import escape_invisible_characters

CONTRACT = {
    "schema_version",
    "study",
    "attn_version",
    "command",
    "source",
    "input",
    "seeds",
    "environment",
    "metrics",
    "rows",
    "warnings",
    "verdicts",
}
"""The keys that the design's report contract names; further ones may stand beside them."""


def text_of(format: str, report: Report, width: int = 10_000) -> str:
    """As on a pipe of that width."""
    result = FORMATS[format](report)
    console = Console(file=io.StringIO(), width=width, color_system=None, highlight=False)
    if not isinstance(result, str):
        with console.capture() as capture:
            console.print(result)
        result = capture.get()
    return "\n".join(line.rstrip() for line in result.split("\n"))


def refuse(token: str) -> NoReturn:
    raise AssertionError(f"{token} is not JSON")


def strict(text: str) -> Any:
    return json.loads(text, parse_constant=refuse)


def test_csv() -> None:
    assert FORMATS["csv"](HAND_MADE) == (
        """\
metric,variant,layer,head,value,spread,n,unit,note,tokens
log10_residual,SAN,0,,-0.0049,0.0026,5,log10,,
log10_residual,SAN,1,,-171507.25,2796.5,5,log10,,
log10_residual,"a|b, ""c""\",0,,0.5,,1,log10,,
log10_residual,"a|b, ""c""\",1,,,,5,log10,"zero, or beyond",
entropy,,0,3,1.25,,1,nat,,16
"""
    )


def test_jsonl() -> None:
    assert FORMATS["jsonl"](HAND_MADE) == (
        """\
{"metric": "log10_residual", "variant": "SAN", "layer": 0, "head": null, "value": -0.0049, "spread": 0.0026, "n": 5, "unit": "log10", "note": null}
{"metric": "log10_residual", "variant": "SAN", "layer": 1, "head": null, "value": -171507.25, "spread": 2796.5, "n": 5, "unit": "log10", "note": null}
{"metric": "log10_residual", "variant": "a|b, \\"c\\"", "layer": 0, "head": null, "value": 0.5, "spread": null, "n": 1, "unit": "log10", "note": null}
{"metric": "log10_residual", "variant": "a|b, \\"c\\"", "layer": 1, "head": null, "value": null, "spread": null, "n": 5, "unit": "log10", "note": "zero, or beyond"}
{"metric": "entropy", "variant": null, "layer": 0, "head": 3, "value": 1.25, "spread": null, "n": 1, "unit": "nat", "note": null, "tokens": 16}
"""
    )


def test_markdown() -> None:
    assert FORMATS["markdown"](HAND_MADE) == (
        """\
**SAN: log10 r = -171,507 at layer 1.**

### log10_residual after each layer

| layer | SAN | a\\|b, "c" |
| --- | ---: | ---: |
| 0 | -0.0049 ± 0.0026 | 0.5000 |
| 1 | -171,507 ± 2,796 | – |

### By variant

| variant | log10_residual |
| --- | ---: |
| SAN | -171,507 ± 2,796 |
| a\\|b, "c" | – |

### By words

| variant | regime |
| --- | :--- |
| SAN | cubic: doubly exponential |

- ❌ `log10_residual < -3` — 1 of 3 values; SAN, layer 1: -171507
- ✅ `entropy < 1` — 0 of 1 value; layer 0, head 3, tokens 16: 1.25

- ⚠️ only an example
"""
    )


def test_table() -> None:
    assert text_of("table", HAND_MADE) == (
        """\
SAN: log10 r = -171,507 at layer 1.

log10_residual after each layer
 layer               SAN  a|b, "c"
     0  -0.0049 ± 0.0026    0.5000
     1  -171,507 ± 2,796         –

By variant
  variant    log10_residual
      SAN  -171,507 ± 2,796
 a|b, "c"                 –

By words
 variant  regime
     SAN  cubic: doubly exponential

FAIL  log10_residual < -3  (1 of 3 values; SAN, layer 1: -171507)
pass  entropy < 1  (0 of 1 value; layer 0, head 3, tokens 16: 1.25)

warning: only an example
"""
    )


@pytest.mark.parametrize("format", ["table", "markdown"])
def test_zero_is_a_number_and_null_is_a_dash(format: str) -> None:
    pair = (Row("order", 0.0, "1", "zero"), Row("order", None, "1", "null", note="too early"))
    report = Report("x", "", pair, {}, {}, views=(View("Both", "variant", ("order",)),))
    lines = [line.replace("|", " ").split() for line in text_of(format, report).splitlines()]
    assert ["zero", "0.000"] in lines
    assert ["null", "–"] in lines


def test_json() -> None:
    document = strict(FORMATS["json"](HAND_MADE))
    rows, views = document.pop("rows"), document.pop("views")
    assert rows == [json.loads(line) for line in FORMATS["jsonl"](HAND_MADE).splitlines()]
    assert [view["title"] for view in views] == [view.title for view in HAND_MADE.views]
    assert document == {
        "schema_version": 2,
        "study": "example",
        "headline": "SAN: log10 r = -171,507 at layer 1.",
        "attn_version": __version__,
        "command": ["attn", "example"],
        "source": {"kind": "synthetic"},
        "input": {"tokens": 16},
        "seeds": [0, 1, 2, 3, 4],
        "environment": {"python": "3"},
        "metrics": {
            "log10_residual": {"unit": "log10", "definition": "How far from rank 1."},
            "entropy": {"unit": "nat", "definition": "How even."},
        },
        "findings": [{"about": "SAN", "text": "cubic: doubly exponential"}],
        "warnings": ["only an example"],
        "verdicts": [
            {
                "condition": "log10_residual < -3",
                "failed": True,
                "text": "1 of 3 values; SAN, layer 1: -171507",
            },
            {
                "condition": "entropy < 1",
                "failed": False,
                "text": "0 of 1 value; layer 0, head 3, tokens 16: 1.25",
            },
        ],
    }


@pytest.mark.slow
@given(report=reports)
def test_json_is_strict_and_keeps_the_contract(report: Report) -> None:
    document = strict(FORMATS["json"](report))
    assert document.keys() >= CONTRACT
    assert document["schema_version"] == SCHEMA_VERSION
    assert document["rows"] == [row.flat() for row in report.rows]


@pytest.mark.slow
@given(report=reports)
def test_csv_jsonl_and_json_agree_number_for_number(report: Report) -> None:
    from_csv = list(csv.DictReader(io.StringIO(FORMATS["csv"](report), newline="")))
    from_jsonl = [strict(line) for line in FORMATS["jsonl"](report).split("\n")[:-1]]
    assert from_jsonl == strict(FORMATS["json"](report))["rows"]
    assert len(from_csv) == len(from_jsonl)
    for flat, row in zip(from_csv, from_jsonl, strict=True):
        assert {name for name, cell in flat.items() if cell != ""} == {
            name
            for name, value in row.items()
            if value is not None and value not in ("", row.get("each"))
        }
        for name, value in row.items():
            if name == "each":  # a list, which a cell does not hold
                continue
            if isinstance(value, int | float):
                assert float(flat[name]) == value
            elif value is not None:
                assert flat[name].removeprefix("'") == escape_invisible_characters(
                    value
                ).removeprefix("'")


@pytest.mark.slow
@pytest.mark.parametrize("format", FORMATS.names())
@given(report=reports)
def test_every_format_renders_every_report_and_writes_nothing(format: str, report: Report) -> None:
    before = repr(report)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("builtins.open", refuse)
        patch.setattr("sys.stdout", None)
        result = FORMATS[format](report)
        assert isinstance(result, str | ConsoleRenderable)
        text = text_of(format, report)
    assert text.endswith("\n") or not report.rows
    assert repr(report) == before
    assert text == text_of(format, report)


@pytest.mark.parametrize("format", FORMATS.names())
def test_every_format_is_a_documented_function_of_the_report_alone(format: str) -> None:
    function = FORMATS[format]
    assert inspect.getdoc(function)
    assert list(inspect.signature(function).parameters) == ["report"]


def test_the_strictness_of_these_tests() -> None:
    """Its reader refuses what Python's own accepts, and a NaN that got into a report is not written."""
    broken = Report("x", "", (Row("order", float("nan"), "1"),), {}, {})
    with pytest.raises(AssertionError, match="NaN is not JSON"):
        strict('{"value": NaN}')
    with pytest.raises(ValueError, match="not JSON compliant"):
        FORMATS["json"](broken)
