"""`attn guide`"""

from attncli.cli.typer_options import flatten_option_groups
from attncli.declare.option_declarations import declare_argument
from attncli.guides import find_guides, format_guide_list, read_guide_text, read_guide_titles
from attncli.options.value_completion import make_name_completer

EXAMPLES = """
attn guide                        # list the guides
attn guide inspect-model          # how to read the output of inspect-model
attn guide inspect-model | less   # as Markdown
"""
PIPE_WIDTH = 10_000
"""On a pipe a title is one line."""


@flatten_option_groups
def guide(
    *,
    topic: str | None = declare_argument(
        default=None,
        metavar="TOPIC",
        complete=make_name_completer(lambda: list(find_guides())),
        help="A topic that `attn guide` lists.",
    ),
) -> int:
    """Read how to use attn and how to read its numbers: one guide for each question."""
    from attncli.io.standard_streams import is_terminal, write_stdout

    at_a_terminal = is_terminal()
    if topic is None:
        write_stdout(format_list_of_guides(at_a_terminal))
    elif at_a_terminal:
        print_guide_for_terminal(read_guide_text(topic))
    else:
        write_stdout(read_guide_text(topic))
    return 0


def format_list_of_guides(at_a_terminal: bool) -> str:
    """Topics and titles."""
    from attncli.cli.help import compute_help_text_width

    lines = format_guide_list(
        read_guide_titles(), compute_help_text_width() if at_a_terminal else PIPE_WIDTH
    )
    return "\n".join(["Guides: attn guide TOPIC", *lines]) + "\n"


def print_guide_for_terminal(markdown: str) -> None:
    """Laid out for the terminal."""
    from rich.console import Console

    from attncli.guides.rendering import layout_guide

    Console().print(layout_guide(markdown))
