"""How an option is declared, once for Python and for the command line: its type, its default, one sentence.

    tokens: Annotated[int | None, Option(metavar="N", help="Longest text.")] = None

The name is the field's own: `tokens=` in Python, `--tokens` on the command line. Nothing here knows typer.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from os import PathLike
from typing import Any

from attncli.declare.applies import Applies

Complete = Callable[[str], list[str]]

RUNS_CODE = "lets a checkpoint run code"
RUNS_JOBS = "hands command lines to other programs and machines"
WRITES = "writes files"
DELETES = "deletes files"
"""What an option does that only whoever types it may decide."""


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
    typed_alone: str | None
    """What it does (RUNS_CODE, WRITES …) where it counts on the command line alone, set by no file and no environment."""
    applies: tuple[Applies, ...]
    """With which kinds of SOURCE and which other options it means something; all of it holds."""
    in_words: Callable[[Any], Any] | None
    """What only Python has, such as a matrix or a list of numbers, as the text or texts that mean it."""

    def __init__(
        self,
        *flags: str,
        help: str,
        metavar: str | None = None,
        complete: Complete | None = None,
        panel: str | None = None,
        usual: bool = False,
        typed_alone: str | None = None,
        applies: Applies | tuple[Applies, ...] = (),
        in_words: Callable[[Any], Any] | None = None,
    ) -> None:
        said = {
            "flags": flags,
            "help": help,
            "metavar": metavar,
            "complete": complete,
            "panel": panel,
            "usual": usual,
            "typed_alone": typed_alone,
            "applies": (applies,) if isinstance(applies, Applies) else applies,
            "in_words": in_words,
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


def rows_of_numbers(value: Any) -> Any:
    """`[1, 2, 3]`, an array or a tensor is one text, `1,2,3`; a list of such, or a matrix, is several."""
    if isinstance(value, str | PathLike) or not isinstance(value, Iterable):
        return value
    try:
        plain = value.tolist() if hasattr(value, "tolist") else list(value)
    except (
        NotImplementedError,
        RuntimeError,
        TypeError,
    ):  # a tensor without numbers, or of another layout
        return value
    if not isinstance(plain, list):
        return value
    if plain and all(map(is_whole, plain)):
        return ",".join(str(int(each)) for each in plain)
    return [rows_of_numbers(each) for each in plain]


def is_whole(value: Any) -> bool:
    """A whole number of any library; True and False are none."""
    return (
        hasattr(value, "__index__")
        and not isinstance(value, bool)
        and not getattr(value, "shape", ())
    )
