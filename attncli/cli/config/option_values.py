"""What a command line comes to: every option of its command with its value."""

from collections.abc import Sequence
from functools import cache
from typing import Any

from attncli.cli.arguments import with_plot_target
from attncli.cli.config.settings import default_map
from attncli.cli.root import root


@cache
def group() -> Any:
    """All commands, to be asked alone, without the group before them: built once for all the lines of a sweep."""
    return root()


def options_of(words: Sequence[str]) -> dict[str, Any]:
    """Given there, set in the environment or a file, or the default."""
    whole = group()
    name, *rest = words
    defaults = default_map(whole).get(name, {})
    context = whole.commands[name].make_context(
        f"attn {name}", with_plot_target(rest), default_map=defaults
    )
    return dict(context.params)
