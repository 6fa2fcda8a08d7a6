"""The whole command line as typer has it, for those who read or run other command lines.

`app` enrols it when it is built, so that commands need not import what imports them.
"""

from collections.abc import Iterator
from typing import Any

Path = tuple[str, ...]
"""The words that reach a command: `("generate", "network")`."""

ENROLLED: list[Any] = []


def enrol(app: Any) -> None:
    ENROLLED[:] = [app]


def root() -> Any:
    """The group of all commands."""
    import typer

    return typer.main.get_command(ENROLLED[0])


def leaves(command: Any, path: Path) -> Iterator[tuple[Path, Any]]:
    """Every command with the words that reach it."""
    members = getattr(command, "commands", None)
    if members is None:
        yield path, command
        return
    for name, member in members.items():
        yield from leaves(member, (*path, name))
