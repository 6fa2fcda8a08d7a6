"""`attn guide`"""

import sys
from typing import Annotated

from attncli.cli.typer_options import grouped
from attncli.guides import guide_text, guides, titles
from attncli.options.completion import completion
from attncli.options.declared import Argument

EXAMPLES = """
attn guide                     what guides there are
attn guide heads               how to read what inspect-model says
attn guide heads | less        as Markdown
"""


@grouped
def guide(
    *,
    topic: Annotated[
        str | None,
        Argument(
            metavar="TOPIC",
            complete=completion(lambda: list(guides())),
            help="One of those that `attn guide` lists.",
        ),
    ] = None,
) -> int:
    """Read how to use attn and how to read its numbers: one guide for each question."""
    from attncli.cli.writer import to_stdout

    if topic is None:
        to_stdout(listing(titles()))
    elif sys.stdout.isatty():
        show(guide_text(topic))
    else:
        to_stdout(guide_text(topic))
    return 0


def listing(entries: dict[str, str]) -> str:
    width = max(map(len, entries))
    return "".join(f"attn guide {name:<{width}}  {title}\n" for name, title in entries.items())


def show(markdown: str) -> None:
    """Laid out for the terminal."""
    from rich.console import Console
    from rich.markdown import Markdown

    Console().print(Markdown(markdown))
