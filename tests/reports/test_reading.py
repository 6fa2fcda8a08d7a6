"""Saved reports: what was written is read back, for ever; what is no report is refused in one sentence."""

import contextlib
import dataclasses
import gc
import io
import json
from pathlib import Path
from typing import Any, get_type_hints
from unittest import mock

import pytest
from commands import SMALL, attn
from hypothesis import given
from reports import HAND_MADE, reports

from attncli import resource_limits
from attncli.errors import InputError
from attncli.records import SCHEMA_VERSION, Report
from attncli.render import FORMATS
from attncli.reports import json_report_reading, json_to_dataclasses
from attncli.reports.json_report_reading import parse_json_report, read_report

VERSION_1 = Path(__file__).with_name("schema_version_1.json")
"""Never to be made again: files like it lie in other people's pipelines."""


def kept(report: Report) -> Report:
    """What a format can keep: pictures are for plots alone."""
    return dataclasses.replace(report, pictures=(), tracks=())


def there_and_back(report: Report) -> Report:
    return parse_json_report(FORMATS["json"](report))


@pytest.mark.slow
@given(report=reports)
def test_any_report_survives_the_round_trip(report: Report) -> None:
    assert there_and_back(report) == report


def test_the_report_made_by_hand_survives_with_every_part() -> None:
    assert there_and_back(HAND_MADE) == HAND_MADE


def report_of(*arguments: str) -> Report:
    """What a command hands to the writer."""
    with mock.patch("attncli.cli.report_writer.write_report", return_value=0) as emit:
        assert attn(*arguments).code == 0
    report: Report = emit.call_args.args[0]
    return report


FITS = ("approximate", "--pattern", "previous", "--length", "16")
MODEL = ("random:bert?layers=2&width=16&heads=2", "--random-tokens", "8")


@pytest.mark.parametrize(
    "arguments",
    [
        ("rank-collapse", *SMALL),
        ("rank-collapse", "--layers", "1", "--heads", "2", "--width", "8", "--seeds", "1", "--sweep", "tokens=4:8"),
        FITS,
        (*FITS, "--pattern", "window:3", "--method", "learned"),
        (*FITS[:-1], "6", "--frontier", "2,3", "--method", "cyclic", "--total-variation", "0.999"),
        ("approximate", "--pattern", "permutation", "--sweep", "length=8:32", "--method", "cyclic", "--total-variation", "0.999"),
        pytest.param(("rank-collapse", *MODEL, "--with-random-init"), marks=pytest.mark.slow),
        pytest.param(("inspect-model", *MODEL), marks=pytest.mark.slow),
    ],
    ids=lambda arguments: " ".join(arguments[:1] + arguments[-2:]),
)  # fmt: skip
def test_the_report_of_every_study_survives(arguments: tuple[str, ...]) -> None:
    report = report_of(*arguments)
    assert report.rows
    assert there_and_back(report) == kept(report)


def test_version_1_stays_readable() -> None:
    report = read_report(str(VERSION_1))
    assert (report.study, len(report.rows), report.seeds) == ("rank-collapse", 32, (0, 1))
    (last,) = (
        row
        for row in report.rows
        if (row.metric, row.variant, row.layer) == ("log10_residual", "SAN", 2)
    )
    assert (last.value, last.spread, last.n) == (-1.8524487523858129, 0.39781425346215, 2)
    assert [verdict.failed for verdict in report.verdicts] == [True, False]
    assert report.metrics["stable_rank"].unit == "dimensions"
    assert len(report.views) == 4
    newer = VERSION_1.read_text().replace(
        '"schema_version": 1', f'"schema_version": {SCHEMA_VERSION}'
    )
    assert FORMATS["json"](report) == newer


def edited(path: str, value: Any) -> str:
    """The saved report with one place changed; `...` takes it out."""
    document = json.loads(VERSION_1.read_text())
    *way, last = (int(part) if part.isdecimal() else part for part in path.split("."))
    place = document
    for part in way:
        place = place[part]
    if value is ...:
        del place[last]
    else:
        place[last] = value
    return json.dumps(document)


TILE = {"head": "0.0", "rows": 1, "columns": 1, "weights": "", "full": 1.0}


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        ("schema_version", 3, "schema_version 3 is unknown to this attn, which reads 1 and 2: update attn."),
        ("schema_version", 0, "reads 1 and 2: measure again."),
        ("schema_version", "1", "schema_version must be a whole number, not '1'"),
        ("schema_version", True, "schema_version must be a whole number, not True"),
        ("schema_version", ..., "it has no schema_version"),
        ("rows", ..., "the key 'rows' is missing in the report"),
        ("rows", {}, "the report.rows must be a list, not {}"),
        ("rows.3", 7, "rows[3] must be an object, not 7"),
        ("rows.3.unit", ..., "the key 'unit' is missing in the report.rows[3]"),
        ("rows.3.value", "-7.5", "the report.rows[3].value must be a number, not '-7.5'"),
        ("rows.3.value", True, "the report.rows[3].value must be a number, not True"),
        ("rows.3.value", 10**400, "the report.rows[3].value must be a number, not this"),
        ("rows.3.layer", 1.5, "the report.rows[3].layer must be a whole number, not 1.5"),
        ("rows.3.tokens", [1], "must be a text or a whole number or a number, not [1]"),
        ("verdicts.0.failed", 0, "the report.verdicts[0].failed must be true or false, not 0"),
        ("metrics.order", [], "the report.metrics.order must be an object, not []"),
        ("seeds.0", None, "the report.seeds[0] must be a whole number, not None"),
        ("headline", None, "the report.headline must be a text, not None"),
        ("tiles", [{**TILE, "weights": "x"}], "the report.tiles[0].weights must be bytes, not 'x'"),
        ("rows.3.each", [1.0, 2.0, "x"], "the report.rows[3].each[2] must be a number, not 'x'"),
        ("source", 1, "the report.source must be an object, not 1"),
        ("metrics.order.unit", 1, "the report.metrics.order.unit must be a text, not 1"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_named(path: str, value: Any, said: str) -> None:
    with pytest.raises(InputError) as caught:
        parse_json_report(edited(path, value))
    assert said in str(caught.value)


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", "null", "metric,value\n", '{"schema_version": 1, "rows": [NaN]}', "[" * 100_000, b"\xff\xfe\x00"],
    ids=lambda text: repr(text[:12]),
)  # fmt: skip
def test_what_is_no_report_is_one_sentence(text: str | bytes) -> None:
    with pytest.raises(InputError, match=r"(JSON|report).*report\.json\.$") as caught:
        parse_json_report(text)
    assert "\n" not in str(caught.value)


def test_a_whole_number_beyond_float_range_is_refused_not_rounded() -> None:
    with pytest.raises(InputError, match="must be a number"):
        parse_json_report(VERSION_1.read_text().replace('"value": ', '"value": 1e999, "was": ', 1))


def test_what_a_later_version_may_add_is_left_out() -> None:
    assert parse_json_report(edited("extra", {"a": 1})) == read_report(str(VERSION_1))


def test_types_are_examined_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not once for each of the rows, of which there are as many as a model has numbers."""
    kinds: list[type] = []

    def counted(kind: type) -> dict[str, Any]:
        kinds.append(kind)
        return get_type_hints(kind)

    monkeypatch.setattr(json_to_dataclasses, "get_type_hints", counted)
    json_to_dataclasses.make_json_reader.cache_clear()
    assert len(read_report(str(VERSION_1)).rows) == 32
    assert len(kinds) == len(set(kinds)) > 1


@pytest.mark.parametrize("text", ['{"schema_version": 2}', VERSION_1.read_text()])
@pytest.mark.parametrize("running", [True, False])
def test_the_garbage_collector_is_left_as_it_was(text: str, running: bool) -> None:
    before = gc.isenabled()
    (gc.enable if running else gc.disable)()
    with contextlib.suppress(InputError):
        parse_json_report(text)
    found = gc.isenabled()
    (gc.enable if before else gc.disable)()
    assert found is running


class Unread(io.FileIO):
    """A file that must not be read."""

    def read(self, size: int | None = -1) -> bytes:
        raise AssertionError(f"{size} bytes of {self.name!r} are read")


@pytest.mark.parametrize("scheme", ["", "file://"])
def test_a_file_longer_than_any_report_is_refused_before_it_is_read(
    tmp_path: Path, scheme: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if scheme:
        pytest.importorskip("fsspec")
    monkeypatch.setattr(json_report_reading, "MOST_BYTES", 1000)
    monkeypatch.setattr(json_report_reading, "read_remote_file", None)
    monkeypatch.setattr(json_report_reading, "open", lambda path, mode: Unread(path), raising=False)
    path = tmp_path / "long.json"
    path.write_bytes(b" " * 1001)
    outcome = attn("check", f"{scheme}{path}")
    assert outcome.code == 3
    assert outcome.err == (
        f"attn: {scheme}{path}: it is longer than any report, 1,000 bytes: "
        "give a report that attn has written, such as report.json.\n"
    )


def test_a_report_that_memory_cannot_hold_is_refused_before_it_is_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(resource_limits, "available_memory", lambda: VERSION_1.stat().st_size)
    outcome = attn("check", str(VERSION_1))
    assert (outcome.code, outcome.err.count("\n")) == (4, 1)
    assert "save fewer metrics or texts" in outcome.err


def test_a_file_without_an_end_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_report_reading, "MOST_BYTES", 1000)
    with pytest.raises(InputError, match="/dev/zero: it is longer than any report"):
        read_report("/dev/zero")
