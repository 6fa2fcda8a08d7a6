"""The table on terminals: every column at every width, nothing cut, colour only where it belongs."""

import dataclasses
import io
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from reports import HAND_MADE
from rich.console import Console

from attncli.records import Definition, Finding, Report, Row, Verdict, View
from attncli.render import FORMATS


def wide(columns: int) -> Report:
    """A view of so many columns, each with a number of its own in three lines."""
    made = [
        Row("order", 1000.0 + 10 * column + layer, "1", f"variant-{column}", layer)
        for column in range(columns)
        for layer in range(3)
    ]
    view = View("Order after each layer", "layer", ("order",), across="variant")
    return Report("example", "The answer.", tuple(made), {}, {}, views=(view,))


def printed(report: Report, width: int) -> list[str]:
    console = Console(file=io.StringIO(), width=width, color_system=None, highlight=False)
    with console.capture() as capture:
        console.print(FORMATS["table"](report))
    return [line.rstrip() for line in capture.get().splitlines()]


@pytest.mark.slow
@given(columns=st.integers(1, 12), width=st.integers(40, 200))
def test_no_column_and_no_number_is_lost_at_any_width(columns: int, width: int) -> None:
    report = wide(columns)
    lines = printed(report, width)
    shown = " ".join(lines).split()
    assert max(map(len, lines)) <= width
    assert not any("…" in line for line in lines)
    for row in report.rows:
        assert f"{row.value:,.0f}" in shown
        assert shown.count(str(row.variant)) == 1


@pytest.mark.slow
@given(width=st.integers(40, 200))
def test_every_piece_of_a_split_table_repeats_its_first_column(width: int) -> None:
    lines = printed(wide(9), width)
    pieces = sum("variant-" in line for line in lines)
    assert sum(line.lstrip().startswith("layer ") for line in lines) == pieces
    for layer in range(3):
        assert sum(bool(re.match(rf" +{layer} ", line)) for line in lines) == pieces


@pytest.mark.parametrize("width", [40, 57, 80, 120, 200])
def test_long_words_wrap_and_are_not_cut(width: int) -> None:
    sentence = "held up by the skip and the MLP, which is a long thing to say in a narrow column"
    report = dataclasses.replace(
        HAND_MADE,
        headline=f"SAN: {sentence}.",
        findings=(Finding("SAN", sentence),),
        verdicts=(Verdict("log10_residual < -3", True, sentence),),
    )
    lines = printed(report, width)
    assert max(map(len, lines)) <= width
    for word in sentence.split():
        assert sum(line.count(word) for line in lines) >= 3


def test_the_pieces_of_a_split_table_are_apart() -> None:
    """No piece follows the one above without an empty line between them."""
    lines = printed(wide(12), 80)
    for index, line in enumerate(lines):
        if line == "Order after each layer":
            assert lines[index - 1] == ""


@pytest.mark.parametrize("name", ["[bold]", "window[3]", "[/]", ":smile:", "[link=x]y", "a\\[b"])
def test_names_are_shown_as_they_are(name: str) -> None:
    """Square brackets and colons in a name are no markup."""
    view = View(f"About {name}", "variant", (), findings="regime")
    across = View("Across", "layer", ("order",), across="variant")
    report = Report(
        "example",
        f"{name}: answered.",
        (Row("order", 1.5, "1", name, 0),),
        {},
        {},
        views=(view, across),
        findings=(Finding(name, f"as {name} says"),),
        verdicts=(Verdict(f"order[{name}] < 3", True, name),),
    )
    text = "\n".join(printed(report, 200))
    assert text.count(name) == 7


def test_colour_on_a_terminal_only() -> None:
    for terminal, marks in ((True, True), (False, False)):
        environment = {"TERM": "xterm-256color"}
        console = Console(
            file=io.StringIO(), force_terminal=terminal, width=80, _environ=environment
        )
        with console.capture() as capture:
            console.print(FORMATS["table"](HAND_MADE))
        assert ("\x1b[" in capture.get()) is marks


def test_a_name_that_says_too_little_has_a_heading() -> None:
    """In the table alone: scripts and gates know the number by its name."""
    row = Row("all_supports_d", 4.0, "features", keys={"fit": "cyclic"})
    known = {"all_supports_d": Definition("features", "…", "d for all patterns")}
    view = View("How wide", "fit", ("all_supports_d", "order"))
    report = Report("example", "The answer.", (row,), known, {}, views=(view,))
    lines = printed(report, 80)
    assert "d for all patterns  order" in " ".join(lines)
    assert "all_supports_d" not in " ".join(lines)
    assert '"heading": "d for all patterns"' in FORMATS["json"](report)
