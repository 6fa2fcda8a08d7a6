"""How an option is declared, once for Python and for the command line: its type, its default, one sentence.

    tokens: Annotated[int | None, Option(metavar="N", help="Longest text.")] = None

The name is the field's own: `tokens=` in Python, `--tokens` on the command line. Nothing here knows typer.
"""

from collections.abc import Callable
from dataclasses import dataclass

Complete = Callable[[str], list[str]]


@dataclass(frozen=True, slots=True, init=False)
class Option:
    """What `Annotated` carries beside an option's type."""

    flags: tuple[str, ...]
    """As the command line spells it, where that is not --name: `--skip/--no-skip`, `-o`."""
    help: str
    metavar: str | None
    complete: Complete | None
    """What a shell may offer for the beginning of a value."""
    panel: str | None
    """The heading that help shows it under."""
    usual: bool
    """Whether most runs may want it: `--help` of a command of many options shows these alone, `--help-all` every one."""

    def __init__(
        self,
        *flags: str,
        help: str,
        metavar: str | None = None,
        complete: Complete | None = None,
        panel: str | None = None,
        usual: bool = False,
    ) -> None:
        said = {
            "flags": flags,
            "help": help,
            "metavar": metavar,
            "complete": complete,
            "panel": panel,
            "usual": usual,
        }
        for name, value in said.items():
            object.__setattr__(self, name, value)


@dataclass(frozen=True, slots=True)
class Argument:
    """What stands on the command line without a name; in Python it comes first."""

    metavar: str
    help: str
    complete: Complete | None = None
    takes_reports: bool = False
    """Whether in Python a report at hand may stand in the place of its file."""
