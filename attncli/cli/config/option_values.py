"""Resolve a command line: every option of its command with its value."""

from collections.abc import Sequence
from typing import Any

from attncli.cli.command_tree import add_default_plot_target, root_command
from attncli.cli.config.settings import build_default_map, collect_settings


def resolve_options(words: Sequence[str]) -> dict[str, Any]:
    """Values from the line, from the environment or a file, or the defaults."""
    whole = root_command()
    name, *rest = words
    defaults = build_default_map(collect_settings(whole)).get(name, {})
    context = whole.commands[name].make_context(
        f"attn {name}",
        add_default_plot_target(rest),
        default_map=defaults,
        **whole.context_settings,
    )
    return dict(context.params)
