"""The whole command line as typer has it, for those who read or run other command lines.

`app` enrols it when it is built, so that commands need not import what imports them.
"""

from typing import Any

ENROLLED: list[Any] = []


def enrol(app: Any) -> None:
    ENROLLED[:] = [app]


def root() -> Any:
    """The group of all commands."""
    import typer

    return typer.main.get_command(ENROLLED[0])
