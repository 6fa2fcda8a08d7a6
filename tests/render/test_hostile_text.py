"""Whatever stands in a report: no format, and no line on stderr, lets it act on a terminal, a CI runner or a spreadsheet."""

import csv
import dataclasses
import io
import json
import re
import types
from collections.abc import Mapping
from html.parser import HTMLParser
from pathlib import Path
from typing import Any, Union, get_args, get_origin, get_type_hints
from xml.etree import ElementTree

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from page_reports import of_curves, of_gates, of_heads, of_maps, of_tiles, of_words
from reports import HAND_MADE, renamed, texts_in
from rich.console import Console

from attncli.cli.main import print_error
from attncli.cli.report_writer import print_warnings_and_failed_gates, render_report
from attncli.options.run_and_output import OutputOptions
from attncli.records import ROW_COLUMNS, Report, Row
from attncli.render import FORMATS
from attncli.reports.json_report_reading import parse_json_report
from attncli.sanitize import escape_invisible_characters, sanitize_value

HOSTILE = (
    "a\n::error::stopped",
    "::add-mask::a",
    "\r::set-output name=a::b",
    "x ##[error]y",
    "##vso[task.complete]",
    "\x1b[2J\x1b]0;title\x07",
    "\x9b31m",
    "\x85next\u2028line\u2029",
    "\u202eright to left\u2066",
    "\u200b\ufeff\u00ad",
    "\x00\x08\x7f\ufffe\uffff",
    "\ud800 half",
    "=cmd|' /C calc'!A0",
    "@SUM(1)",
    "-1+2",
    "+1",
    "\t=1",
    "a|b`c``d",
    "<script>alert(1)</script><!-- --> &lt;",
    "**bold** _it_ ~~no~~ [a](javascript:b) ![c](d) \\",
    "$\\frac{1}{$",
    "]]>&amp;\"'",
    "::error file=a,line=1::b%0Ac",
    "[bold red]rich[/]",
)
alphabet = st.sampled_from(
    "a:#[]|`<>&*_~\\=+-@'\",\n\r\t\x1b\x9b\x85\u2028\u202e\ud800\udfff\ufffe\x00 $%!(){}"
)
texts = st.sampled_from(HOSTILE) | st.text(alphabet | st.characters(), min_size=1, max_size=12)

COMMAND = re.compile(r"\s*::[\w-]+.*::|.*##\w*\[")


def filled(kind: Any, text: str) -> Any:
    """A value of this type in which every text is the given one."""
    origin, inner = get_origin(kind), get_args(kind)
    if kind in (str, Any):
        return text
    if origin in (Union, types.UnionType):
        return text if str in inner else filled(inner[0], text)
    if origin is tuple:
        return (filled(inner[0], text),)
    if origin is Mapping:
        return {filled(inner[0], text): filled(inner[1], text)}
    if dataclasses.is_dataclass(kind):
        hints = get_type_hints(kind)
        return kind(
            **{field.name: filled(hints[field.name], text) for field in dataclasses.fields(kind)}
        )
    return {int: 1, float: 0.5, bool: True, bytes: b"\x01"}[kind]


def hostile_report(text: str) -> Report:
    """Every text of it; and one verdict that passed, one line that is shown by each kind of view."""
    report: Report = filled(Report, text)
    view, verdict = report.views[0], report.verdicts[0]
    views = (
        dataclasses.replace(view, findings="", heat=""),
        dataclasses.replace(view, findings="", across=None),
        dataclasses.replace(view, findings=""),
        view,
    )
    verdicts = (verdict, dataclasses.replace(verdict, failed=False))
    return dataclasses.replace(report, views=views, verdicts=verdicts)


def shown(format: str, report: Report) -> str:
    """As on a pipe."""
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("COLUMNS", raising=False)
        return render_report(report, format, io.StringIO(), plot=False)


def plotted(report: Report) -> str:
    from attncli.render.plots.terminal_plot import plot_in_terminal

    console = Console(file=io.StringIO(), width=100, color_system=None)
    with console.capture() as capture:
        console.print(plot_in_terminal(report))
    return capture.get()


def said(report: Report) -> str:
    """What a person is told beside the file."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.stderr", stream := io.StringIO())
        print_warnings_and_failed_gates(
            report, OutputOptions(output=None, format="csv"), written=False
        )
        print_error(report.headline, 3)
        return stream.getvalue()


WAYS: Mapping[str, Any] = {
    **{name: (lambda report, name=name: shown(name, report)) for name in FORMATS.names()},
    "plot": plotted,
    "stderr": said,
}


def test_the_filled_report_leaves_out_no_text() -> None:
    """Every field of every record that a report holds."""
    found = repr(filled(Report, "mark"))
    for field in dataclasses.fields(Report):
        if field.name not in ("seeds", "headline"):
            assert re.search(rf"{field.name}=[({{]?.*?mark", found), field.name


@pytest.mark.parametrize("way", list(WAYS))
@settings(max_examples=40)
@given(text=texts)
def test_everything_is_visible_and_nothing_is_a_command(way: str, text: str) -> None:
    out = WAYS[way](hostile_report(text))
    assert out.replace("\n", "").isprintable()
    out.encode("utf-8")
    allowed = re.compile(r"::(notice|warning|error|debug)[ :]") if way == "github" else None
    for line in out.split("\n"):
        if allowed is None:
            assert not COMMAND.match(line), line
        elif line:
            assert allowed.match(line), line
            assert not re.search(r"##\w*\[", line)


KNOWN = (HAND_MADE, of_heads(), of_curves(), of_words(), of_gates(), of_maps(), of_tiles())
"""With tables of every kind, and rows that no table shows."""


@pytest.mark.slow
@pytest.mark.parametrize("way", [name for name in WAYS if name not in ("json", "jsonl", "html")])
@settings(max_examples=60)
@given(text=texts, report=st.sampled_from(KNOWN), data=st.data())
def test_texts_made_visible_as_they_are_shown_are_as_visible_as_all(
    way: str, text: str, report: Report, data: st.DataObject
) -> None:
    """One name of a report is hostile, wherever it stands; formats look at what they show alone."""
    name = data.draw(st.sampled_from(sorted(set(texts_in(report)))))
    assume(escape_invisible_characters(text) not in texts_in(report))
    hostile = renamed(report, name, text)
    assert WAYS[way](hostile) == WAYS[way](sanitize_value(hostile))


class Unread(str):
    """A text that must not be looked at."""

    def isprintable(self) -> bool:
        raise AssertionError("this text is not shown")


@pytest.mark.parametrize("way", ["table", "markdown", "github", "junit", "stderr"])
def test_texts_that_are_not_shown_are_not_looked_at(way: str) -> None:
    """Of a large report a table shows a small part."""
    unread = Unread("not shown")
    rows = [Row("other", 1.0, "1", layer=n, note=unread, keys={"word": unread}) for n in range(9)]
    report = dataclasses.replace(
        HAND_MADE, rows=(*HAND_MADE.rows, *rows), source={"of": unread}, input={"texts": [unread]}
    )
    assert WAYS[way](report) == WAYS[way](HAND_MADE)


@pytest.mark.parametrize("way", [name for name in WAYS if name != "plot"])
@settings(max_examples=40)
@given(text=texts)
def test_hostile_text_adds_no_line(way: str, text: str) -> None:
    assume(text not in ROW_COLUMNS)  # a further axis of that name would be the column itself
    assert len(WAYS[way](hostile_report(text)).split("\n")) == len(
        WAYS[way](hostile_report("x")).split("\n")
    )


@given(text=texts)
@example("=1")
def test_no_cell_of_csv_is_a_formula(text: str) -> None:
    for line in csv.reader(io.StringIO(shown("csv", hostile_report(text)))):
        for cell in line:
            assert not cell.lstrip().startswith(("=", "+", "-", "@")), cell


def test_numbers_below_zero_stay_numbers_in_csv() -> None:
    report = hostile_report("x")
    row = dataclasses.replace(report.rows[0], value=-1.5)
    out = shown("csv", dataclasses.replace(report, rows=(row,)))
    assert next(csv.DictReader(io.StringIO(out)))["value"] == "-1.5"


class Reader(HTMLParser):
    """Tags and text of a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.text = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.tags.append(tag)

    def handle_comment(self, data: str) -> None:
        self.tags.append("comment")

    def handle_data(self, data: str) -> None:
        self.text += data


@pytest.mark.slow
@given(text=texts)
@example("`")
@example("``|")
@example("a`|`b")
@example(" ")
@example(" a\u3000")
def test_markdown_shows_the_text_and_no_markup_of_it(text: str) -> None:
    """Read by a parser of GitHub's Markdown with HTML on."""
    parser = MarkdownIt("js-default", {"html": True})
    page = Reader(parser.render(shown("markdown", hostile_report(text))))
    assert page.tags == Reader(parser.render(shown("markdown", hostile_report("x")))).tags
    squeezed = " ".join(escape_invisible_characters(text).split())
    assert squeezed in " ".join(page.text.split())


@given(text=texts)
def test_junit_is_xml_with_the_same_elements(text: str) -> None:
    root, plain = (
        ElementTree.fromstring(shown("junit", hostile_report(each)).encode())
        for each in (text, "x")
    )
    assert [element.tag for element in root.iter()] == [element.tag for element in plain.iter()]
    assert root.find(".//testcase").attrib["name"] == escape_invisible_characters(text)  # type: ignore[union-attr]


@given(text=texts)
def test_json_is_read_back_as_it_was(text: str) -> None:
    report = dataclasses.replace(hostile_report(text), pictures=(), tracks=(), tiles=())
    row = dataclasses.replace(report.rows[0], keys={})
    report = dataclasses.replace(report, rows=(row,))
    out = shown("json", report)
    assert parse_json_report(out) == report
    assert json.loads(shown("jsonl", report)) == row.flat()


@pytest.mark.slow
@pytest.mark.parametrize("text", HOSTILE)
def test_a_figure_is_drawn_whatever_its_words_are(text: str, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    from attncli.render.plots.matplotlib_figure import save_figure

    report = dataclasses.replace(hostile_report("x"), headline=text, pictures=(), tracks=())
    view = dataclasses.replace(
        report.views[0], title=text, down="layer", across="variant", where={}
    )
    row = dataclasses.replace(report.rows[0], variant=text)
    report = dataclasses.replace(report, views=(view,), rows=(row,))
    save_figure(report, tmp_path / "a.svg")


def test_a_long_sentence_is_cut_and_keeps_its_end(capsys: pytest.CaptureFixture[str]) -> None:
    print_error("what " + "x" * 200_000 + ": do this.", 2)
    line = capsys.readouterr().err
    assert len(line) < 1100
    assert line.startswith("attn: what xxx")
    assert line.endswith("xxx: do this.\n")
