"""A guide laid out for a terminal of some width."""

import re
from typing import ClassVar

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.markdown import CodeBlock, Heading, Markdown, MarkdownElement
from rich.padding import Padding
from rich.text import Text
from rich.theme import Theme

LINK = re.compile(r"\[([^\]]+)\]\(([^)\s]+)\)")
TOPIC = re.compile(r"([\w-]+)\.md(?:#.*)?")
COLUMNS = re.compile(r"\S {2,}\S")
"""What lines of a table have and sentences have not."""


class TerminalCodeBlock(CodeBlock):
    """Commands and sentences are wrapped; rows of a table are cut at the edge, since wrapped they cannot be read."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        lines: list[RenderableType] = [
            Text(
                line,
                style="bold" if line.startswith("$ ") else "cyan",
                no_wrap=COLUMNS.search(line.strip()) is not None,
                overflow="ellipsis",
            )
            for line in str(self.text).rstrip().split("\n")
        ]
        yield Padding(Group(*lines), (0, 0, 0, 2))


class TerminalHeading(Heading):
    """Where reading begins: on the left, as the text is."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        self.text.justify = "left"
        if self.tag != "h1":
            yield Text("")
        yield self.text


CODE = "bold"
"""rich's own style for code in a sentence has a black background, which on a light terminal puts words into boxes."""


class Guide(Markdown):
    """Markdown as guides are written."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        with console.use_theme(Theme({"markdown.code": CODE})):
            yield from super().__rich_console__(console, options)

    elements: ClassVar[dict[str, type[MarkdownElement]]] = {
        **Markdown.elements,
        "fence": TerminalCodeBlock,
        "code_block": TerminalCodeBlock,
        "heading_open": TerminalHeading,
    }


def layout_guide(markdown: str) -> Guide:
    return Guide(LINK.sub(format_guide_link, markdown), hyperlinks=False)


def format_guide_link(link: re.Match[str]) -> str:
    """A link to another guide as the command that shows it; of one to a file its words."""
    words, target = link[1], link[2]
    topic = TOPIC.fullmatch(target)
    if topic is None:
        return f"{words} ({target})" if target.startswith("http") else words
    command = f"`attn guide {topic[1]}`"
    return command if words == topic[1] else f"{words} ({command})"
