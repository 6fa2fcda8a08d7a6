"""The JSON Schema says what reports are: no more than the records hold, no less, and every command's output follows it."""

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from commands import SMALL, attn
from hypothesis import given
from jsonschema import Draft202012Validator
from reports import HAND_MADE, reports

from attncli.records import READ_VERSIONS, Definition, Finding, Report, Row, Verdict, View
from attncli.render import FORMATS

VERSION_1 = Path(__file__).with_name("schema_version_1.json")
SCHEMA: dict[str, Any] = json.loads(attn("list", "schema").out)
VALIDATOR = Draft202012Validator(SCHEMA)
ARCHITECTURE = "random:bert?layers=2&width=16&heads=2"
MODEL = (ARCHITECTURE, "--random-tokens", "8", "--samples", "2")
FIT = ("approximate", "--pattern", "previous", "--length", "16")


def valid(text: str) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(text)
    VALIDATOR.validate(document)
    return document


def test_the_schema_is_one_and_names_what_the_records_hold() -> None:
    Draft202012Validator.check_schema(SCHEMA)
    parts = SCHEMA["$defs"]
    for kind, name in ((Definition, "definition"), (Finding, "finding"), (Verdict, "verdict"), (View, "view")):  # fmt: skip
        assert set(parts[name]["properties"]) == {field.name for field in dataclasses.fields(kind)}
        required = {f.name for f in dataclasses.fields(kind) if f.default is dataclasses.MISSING and f.default_factory is dataclasses.MISSING}  # fmt: skip
        assert set(parts[name]["required"]) == required
    assert set(parts["row"]["properties"]) == {f.name for f in dataclasses.fields(Row)} - {"keys"}
    own = {f.name for f in dataclasses.fields(Report)} - {"pictures", "tiles", "tracks"}
    assert set(SCHEMA["properties"]) == {*own, "schema_version", "attn_version"}
    assert SCHEMA["properties"]["schema_version"]["enum"] == list(READ_VERSIONS)


@pytest.mark.slow
@given(report=reports)
def test_any_report_follows_it(report: Report) -> None:
    assert set(valid(FORMATS["json"](report))) == set(SCHEMA["required"])


def test_reports_of_earlier_versions_follow_it() -> None:
    valid(VERSION_1.read_text())


def spoiled(change: Callable[[dict[str, Any]], object]) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(FORMATS["json"](HAND_MADE))
    change(document)
    return document


@pytest.mark.parametrize(
    "change",
    [
        lambda report: report.pop("rows"),
        lambda report: report.update(schema_version=3),
        lambda report: report["rows"][0].update(value=None),
        lambda report: report["rows"][0].update(value="0.5"),
        lambda report: report["rows"][0].update(layer=0.5),
        lambda report: report["rows"][0].update(spread=-1.0),
        lambda report: report["rows"][0].update(tokens=[16]),
        lambda report: report["rows"][0].update(each=[1.0]),
        lambda report: report["rows"][0].pop("unit"),
        lambda report: report["verdicts"][0].update(failed=0),
        lambda report: report["metrics"]["entropy"].pop("unit"),
    ],
)
def test_what_is_no_report_does_not(change: Callable[[dict[str, Any]], object]) -> None:
    assert not VALIDATOR.is_valid(spoiled(change))


LINES = {
    "rank-collapse": ("rank-collapse", *SMALL),
    "rank-collapse --sweep": ("rank-collapse", "--layers", "1", "--heads", "2", "--width", "8", "--seeds", "2", "--sweep", "tokens=4:8"),
    "approximate": FIT,
    "approximate --sweep": ("approximate", "--pattern", "permutation", "--sweep", "length=8:32", "--method", "cyclic", "--total-variation", "0.999"),
    "paths": ("paths", "--layers", "2", "--heads", "2", "--width", "8", "--tokens", "4", "--seeds", "2"),
    "count-paths": ("count-paths", "--layers", "6", "--heads", "6"),
    "inspect-weights": ("inspect-weights", ARCHITECTURE),
    "inspect-maps": ("inspect-maps", "maps.safetensors"),
    "dispersion": ("dispersion", ARCHITECTURE, "--lengths", "4:8"),
    "attribute": ("attribute", *MODEL, "--token", "0"),
    "sensitivity": ("sensitivity", *MODEL),
    "head-capacity": ("head-capacity", ARCHITECTURE, "--length", "6"),
    "verify-fit": ("verify-fit", "fit.safetensors"),
    "check": ("check", str(VERSION_1)),
    "compare": ("compare", str(VERSION_1), str(VERSION_1)),
    "inspect-model": ("inspect-model", *MODEL),
    "rank-collapse MODEL": ("rank-collapse", *MODEL),
    "paths MODEL": ("paths", *MODEL),
    "sweep": ("sweep", "rank-collapse", "--model", ARCHITECTURE, "--model", "random:nothing", "--random-tokens", "8"),
    "ci": ("ci", "--config", "attn.toml"),
}  # fmt: skip
"""A run of every command that writes a report."""
OF_MODELS = ("inspect-model", "rank-collapse MODEL", "paths MODEL", "sweep")


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow if name in OF_MODELS else ()) for name in LINES]
)  # fmt: skip
def test_every_command_follows_it(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "attn.toml").write_text(
        f'[checks.saved]\nreport = "{VERSION_1}"\nfail-if = ["order > 99"]\n'
    )
    if name == "inspect-maps":
        attn("generate", "maps", "--map", "sink", "--tokens", "4", "-o", "maps.safetensors")
    if name == "verify-fit":
        attn(*FIT, "-o", "fit.safetensors")
    outcome = attn(*LINES[name], "--format", "json")
    document = valid(outcome.out)
    assert document["rows"], outcome.err
    if name in ("inspect-model", "rank-collapse MODEL", "paths MODEL"):
        assert all(text["sha256"] for text in document["input"]["texts"])
        assert any(len(row.get("each", ())) == 2 for row in document["rows"])


def test_no_command_that_writes_reports_is_forgotten() -> None:

    from attncli.cli.app import build_app

    commands = build_app().commands  # type: ignore[attr-defined]
    writing = {
        name for name, one in commands.items() if any(p.name == "format" for p in one.params)
    }
    writing -= {"list"}  # its formats are of lists
    assert writing == {line[0] for line in LINES.values()}
