"""`attn guide`"""

from typing import Annotated

from attncli.cli.typer_options import grouped
from attncli.declare.options import Argument
from attncli.guides import guide_text, guides, listing, titles
from attncli.options.completion import completion

EXAMPLES = """
attn guide                        list the guides
attn guide inspect-model          how to read the output of inspect-model
attn guide inspect-model | less   as Markdown
"""
PIPE_WIDTH = 10_000
"""On a pipe a title is one line."""


@grouped
def guide(
    *,
    topic: Annotated[
        str | None,
        Argument(
            metavar="TOPIC",
            complete=completion(lambda: list(guides())),
            help="A topic that `attn guide` lists.",
        ),
    ] = None,
) -> int:
    """Read how to use attn and how to read its numbers: one guide for each question."""
    from attncli.io.standard_output import is_terminal, to_stdout

    at_a_terminal = is_terminal()
    if topic is None:
        to_stdout(all_guides(at_a_terminal))
    elif at_a_terminal:
        show(guide_text(topic))
    else:
        to_stdout(guide_text(topic))
    return 0


def all_guides(at_a_terminal: bool) -> str:
    """Topics and titles."""
    from attncli.cli.help import text_width

    lines = listing(titles(), text_width() if at_a_terminal else PIPE_WIDTH)
    return "\n".join(["Guides: attn guide TOPIC", *lines]) + "\n"


def show(markdown: str) -> None:
    """Laid out for the terminal."""
    from rich.console import Console

    from attncli.guides.showing import laid_out

    Console().print(laid_out(markdown))
