"""Guides in a terminal."""

import io
import re

import pytest
from commands import attn
from rich.console import Console

from attncli.guides import find_guides, format_guide_list, read_guide_text, read_guide_titles
from attncli.guides.rendering import layout_guide


def at(width: int, markdown: str) -> list[str]:
    buffer = io.StringIO()
    Console(file=buffer, width=width, color_system=None).print(layout_guide(markdown))
    return [line.rstrip() for line in buffer.getvalue().splitlines()]


@pytest.mark.parametrize("width", [80, 120])
@pytest.mark.parametrize("topic", find_guides())
def test_every_guide_fits_and_is_whole(topic: str, width: int) -> None:
    """Every heading is a line; no line is wider than the terminal."""
    text = read_guide_text(topic)
    lines = at(width, text)
    assert max(map(len, lines)) <= width
    whole = " ".join(lines)
    for heading in re.findall(r"^#+ (.+)$", re.sub(r"```.*?```", "", text, flags=re.DOTALL), re.MULTILINE):  # fmt: skip
        assert heading.replace("`", "").replace("\\", "") in whole
    assert "](" not in whole


@pytest.mark.parametrize("topic", find_guides())
def test_links_between_guides_are_commands(topic: str) -> None:
    text = read_guide_text(topic)
    whole = " ".join(at(2000, text))
    for target in re.findall(r"\]\(([\w-]+)\.md", text):
        assert f"attn guide {target}" in whole


def test_rows_are_cut_and_sentences_are_wrapped() -> None:
    """A row that goes on in the next line cannot be read; a command that is cut cannot be run."""
    command = "$ attn rank-collapse " + "--metric log10_residual " * 4
    shown = at(60, f"```console\n{command}\n layer  {'0.1234  ' * 12}\n```\n")
    assert " ".join(shown).count("log10_residual") == 4
    assert [line for line in shown if "0.1234" in line] == [shown[-1]]
    assert shown[-1].endswith("…")


@pytest.mark.parametrize("topic", find_guides())
def test_no_colour_depends_on_the_background(topic: str) -> None:
    """A background of one's own boxes words on a terminal of the other kind."""
    buffer = io.StringIO()
    console = Console(file=buffer, width=100, color_system="standard", force_terminal=True)
    console.print(layout_guide(read_guide_text(topic)))
    codes = re.findall(r"\x1b\[([\d;]*)m", buffer.getvalue())
    numbers = {int(each) for code in codes for each in code.split(";") if each}
    assert numbers
    assert not numbers & {7, *range(40, 49), *range(100, 108)}


def test_links_become_what_one_types() -> None:
    (line,) = at(
        100,
        "See [inspect-model](inspect-model.md#baselines), [how to read](metrics.md), [a file](../x.py).",
    )
    assert line == "See attn guide inspect-model, how to read (attn guide metrics), a file."


def test_the_list_has_a_line_for_each_guide() -> None:
    shown = attn("guide").out.splitlines()[1:]
    assert [line.split()[0] for line in shown] == list(find_guides())
    for line, title in zip(shown, read_guide_titles().values(), strict=True):
        assert line.endswith(title)
    assert max(map(len, format_guide_list(read_guide_titles(), 80))) <= 80


def test_a_misspelt_topic_is_refused_with_the_nearest() -> None:
    outcome = attn("guide", "metrisc")
    assert (outcome.code, outcome.out) == (2, "")
    assert "did you mean 'metrics'?" in outcome.err
