"""What one does with a report in Python: gates, tables, files, pictures."""

import io
import json
from pathlib import Path
from typing import Any

import pytest
from commands import attn as command
from reports import HAND_MADE
from rich.console import Console

import attncli as attn
from attncli.python import notebook_html
from attncli.python.report_answer import report_to_answer
from attncli.records import Report, Row, View

SMALL: dict[str, Any] = {"layers": 2, "tokens": 5, "width": 8, "heads": 2, "seeds": 2}
MODEL = "random:gpt2?layers=2&width=24&heads=2"
WARNED = report_to_answer(HAND_MADE)
(WARNING,) = HAND_MADE.warnings


def test_whatever_a_person_reads_has_the_warnings(tmp_path: Path) -> None:
    console = Console(width=100)
    with console.capture() as rich:
        console.print(WARNED)
    for text in (
        str(WARNED),
        repr(WARNED),
        rich.get(),
        WARNED.text("markdown"),
        WARNED._repr_html_(),
    ):
        assert WARNING in text
    for ending in (".md", ".txt", ".html", ".json"):
        assert WARNING in WARNED.save(tmp_path / f"r{ending}").read_text(), ending


@pytest.mark.parametrize("format", ["table", "markdown"])
def test_a_command_says_warnings_on_stderr_alone(format: str, tmp_path: Path) -> None:
    """Once, whether the report goes to stdout or to a file."""
    saved = str(WARNED.save(tmp_path / "r.json"))
    words = ("check", saved, "--fail-if", "entropy < 1", "--format", format)
    told = command(*words)
    assert (told.out.count(WARNING), told.err.count(f"warning: {WARNING}")) == (0, 1)
    told = command(*words, "-o", str(tmp_path / "r.txt"))
    assert (told.out, told.err.count(f"warning: {WARNING}")) == ("", 1)
    assert WARNING not in (tmp_path / "r.txt").read_text()


def refusals() -> list[tuple[Any, str]]:
    report = report_to_answer(HAND_MADE)
    return [
        (lambda: report.check(3), "`conditions` must be texts, each by itself, such as"),  # type: ignore[arg-type]
        (lambda: report.check(["entropy < 1"]), "`conditions` must be texts, each by itself"),  # type: ignore[arg-type]
        (lambda: report.save(None), "`path` must be a path, not None."),  # type: ignore[arg-type]
        (lambda: attn.read(None), "`path` must be a path, not None."),  # type: ignore[arg-type]
        (lambda: attn.read("-"), "`path` must name a file: '-' for stdin"),
        (lambda: report.save("x.pdf"), "cannot save as x.pdf, which is a figure: draw it with plot('x.pdf')."),
        (lambda: report.plot(3), "`path` must be a path, not 3."),  # type: ignore[arg-type]
        (lambda: report.plot("x.svg", size=3), "`size` must be width and height in inches"),  # type: ignore[arg-type]
        (lambda: report.plot("x.svg", size=(-3, 2)), "`size` must be width and height in inches"),
        (lambda: report.plot("x.svg", size=(3000, 2000)), "`size` must be width and height"),
        (lambda: report.text(width=0), "`width` must be a whole number of columns, 20 or more"),
        (lambda: report.text(width=80.5), "`width` must be a whole number of columns"),  # type: ignore[arg-type]
        (lambda: report.text(3), "`format` must be a text, one of csv, github"),  # type: ignore[arg-type]
    ]  # fmt: skip


@pytest.mark.parametrize(("asked", "said"), refusals(), ids=range(len(refusals())))
def test_what_cannot_be_is_refused_in_one_sentence(
    asked: Any, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(attn.errors.UsageError) as refused:
        asked()
    assert str(refused.value).startswith(said)
    assert list(tmp_path.iterdir()) == []


def test_a_gate_that_is_asked_again_is_decided_once() -> None:
    report = attn.rank_collapse(**SMALL)
    gate = "log10_residual < 1"
    assert len(report.check(gate, gate).check(gate).verdicts) == 1
    assert not report.check("log10_residual > 1e6").check(gate).passed


def test_equal_reports_are_one_in_a_set() -> None:
    report = attn.rank_collapse(**SMALL)
    assert {report, attn.rank_collapse(**SMALL)} == {report}
    assert len({*report.rows, *attn.rank_collapse(**SMALL).rows}) == len(report.rows)


def test_columns_of_whole_numbers_are_whole_numbers() -> None:
    pandas = pytest.importorskip("pandas")
    frame = attn.inspect_model(MODEL, random_tokens=8).to_pandas()
    kinds = {name: str(kind) for name, kind in frame.dtypes.items()}
    assert {name: kinds[name] for name in ("layer", "head", "n")} == dict.fromkeys(("layer", "head", "n"), "Int64")  # fmt: skip
    assert {kinds["value"], kinds["spread"]} == {"float64"}
    assert frame["layer"].isna().sum() == 0
    assert frame["head"].isna().any()
    assert set(frame["n"][frame["spread"].notna()]) == {8}  # draws of random tokens
    alone = attn.rank_collapse(**SMALL).to_pandas()
    assert str(alone["head"].dtype) == "Int64"
    assert pandas.api.types.is_float_dtype(alone["value"])
    assert list(report_to_answer(Report("x", "nothing", (), {}, {})).to_pandas().columns)[:2] == ["metric", "variant"]  # fmt: skip


QUESTIONS = {
    "collapse": lambda: attn.rank_collapse(**SMALL),
    "heads": lambda: attn.inspect_model(MODEL, random_tokens=8),
    "one head": lambda: attn.inspect_model(MODEL, random_tokens=8, heads="0.1", pictures=True),
    "attribution": lambda: attn.attribute(MODEL, random_tokens=8, token=-1),
    "fits": lambda: attn.approximate(pattern="previous", length=6, pictures=True),
    "fits, none taken along": lambda: attn.approximate(pattern="previous", length=6),
    "paths": lambda: attn.paths(**SMALL),
    "sampled paths": lambda: attn.paths(**SMALL, sample=5),
    "maps": lambda: attn.inspect_maps([[[1.0, 0.0], [0.5, 0.5]]], pictures=True),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", QUESTIONS)
def test_a_notebook_shows_the_figure_that_plot_draws(name: str, tmp_path: Path) -> None:
    report = QUESTIONS[name]()  # type: ignore[no-untyped-call]
    shown = report._repr_html_()
    if name == "fits, none taken along":
        assert "<svg" not in shown
        with pytest.raises(attn.errors.UsageError, match="ask for it with `pictures=True`"):
            report.plot(tmp_path / "x.svg")
        assert list(tmp_path.iterdir()) == []
        return
    assert shown.count("<svg") == 1
    drawn = report.plot(tmp_path / "x.svg").read_text()
    for part in ('<g id="axes_', "<text "):
        assert shown.count(part) == drawn.count(part) > 0


def test_a_notebook_shows_the_grid_of_roles_once() -> None:
    """In the figure; the letters stand in a table only where there is none."""
    rows = tuple(
        Row("role", 0.5, "1", layer=0, head=head, keys={"mark": "S", "role": "sink"})
        for head in range(4)
    )
    views = (View("roles", "layer", ("role",), across="head", heat="mark"),)
    shown = report_to_answer(Report("x", "few heads", rows, {}, {}, views=views))._repr_html_()
    assert "<svg" in shown
    assert "<table" not in shown


@pytest.mark.slow
def test_a_figure_of_very_many_heads_takes_little_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notebook_html, "MOST_DRAWN", 2**16)
    rows = tuple(
        Row("sink", (layer * head % 97) / 97, "1", layer=layer, head=head, keys={"mark": "S"})
        for layer in range(24)
        for head in range(16)
    )
    views = (View("sink", "layer", ("sink",), across="head", heat="mark"),)
    report = report_to_answer(Report("x", "many heads", rows, {}, {}, views=views))
    (before, _, after) = report._repr_html_().partition("data:image/png;base64,")
    assert before.endswith('src="')
    assert len(after.partition('"')[0]) <= 4 * 2**16 / 3 + 4


def test_a_report_read_back_is_saved_alike(tmp_path: Path) -> None:
    path = WARNED.save(tmp_path / "r.json")
    assert json.loads(attn.read(path).text("json")) == json.loads(path.read_text())


@pytest.mark.slow
def test_without_a_path_plot_gives_the_figure_itself(tmp_path: Path) -> None:
    """The same picture as in a file, in the size that is asked for."""
    report = attn.rank_collapse(layers=4, tokens=4, width=8, heads=2, seeds=1)
    figure = report.plot(size=(4.0, 3.0))
    assert tuple(figure.get_size_inches()) == (4.0, 3.0)
    lines = {line.get_label() for axes in figure.axes for line in axes.lines}
    assert {"SAN", "SAN+skip"} <= lines
    path = report.plot(tmp_path / "r.png", size=(4.0, 3.0))
    drawn = io.BytesIO()
    figure.savefig(drawn, format="png", dpi=300)
    assert image_size(drawn.getvalue()) == image_size(path.read_bytes())
    with pytest.raises(attn.AttnError, match="nothing that a figure is drawn of"):
        attn.paths(path="1,0", layers=2, seeds=1).plot()


def image_size(png: bytes) -> bytes:
    """Width and height, as the header of a PNG has them."""
    return png[16:24]
