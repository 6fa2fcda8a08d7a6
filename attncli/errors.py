"""The error tree. Every class carries its exit code; one place (`cli/main.py`) prints the sentence and exits.

    AttnError
    ├── UsageError      2  the command line is wrong: an unknown name, an impossible size, a gate that matches nothing
    ├── InputError      3  the input cannot be analysed: a broken file, NaN weights, a network that leaves float range
    │   ├── NoRule         a model's code does something for which exact residuals have no rule; subtraction would do
    │   ├── Unresolved     a number that rounding has swallowed; a study reports null from there on
    │   ├── NoAttention    a model in which no softmax weighs values
    │   ├── NotFinite      NaN or infinite states or weights
    │   └── Imprecise      rounding is too coarse for the requested number; a wider type would do
    ├── LimitError      4  out of memory or disk, found before the work where possible
    └── NoBaseline      5  there is nothing to compare with: no such file, or not the numbers that a gate asks for

Exit code 0 is success, 1 a failed gate such as a regression (`gates.exit_code`), 70 a crash (a bug in attn),
130 an interrupt. A pipeline can tell a first run (5) from a regression (1) and both from a crash.
A message is one sentence that says what, where and what to do.
"""

import difflib
import errno
from collections.abc import Iterable

FAILED_GATE = 1
"""The exit code of a run that has its report, and a gate that failed."""

MOST_NAMED = 40
"""The most names that a sentence lists."""
LONGEST_NAME = 200
"""The longest unknown name that is shown in full, in letters."""


class AttnError(Exception):
    """Anything that ends a command with one sentence instead of a traceback.

    Sentences are written for callers in Python: a parameter is named in backticks, with its value as one writes it there,
    "lower `tokens`", "use `dtype='float64'`", "`paths(count=True)` needs none". The command line shows all of these as
    one types them (`cli/parameter_names_as_options.py`). `about` holds parameters by their names, so that the line of a
    configuration file is named where it sets one of them.
    """

    exit_code = 2

    def __init__(self, sentence: str = "", *, about: Iterable[str] = ()) -> None:
        super().__init__(sentence)
        self.about = tuple(about)
        """The names of the parameters that it is about."""


class UsageError(AttnError):
    """The command line asks for something that does not exist or makes no sense."""

    exit_code = 2


class InputError(AttnError):
    """The input was found but cannot be analysed."""

    exit_code = 3


class NoExactRule(InputError):
    """Exact residuals have no rule for something that a model's code does."""


class BelowResolution(InputError):
    """The requested number is smaller than rounding."""


class InsufficientPrecision(InputError):
    """Numbers miss the sum they must add up to by more than rounding explains."""


class NoAttention(InputError):
    """No softmax weights values anywhere in a model."""


class NonFiniteNumbers(InputError):
    """A model's states or weights are NaN or infinite."""


class LimitError(AttnError):
    """The machine lacks memory or disk for it."""

    exit_code = 4


class NoBaseline(AttnError):
    """The baseline of a comparison is missing."""

    exit_code = 5


def make_unknown_name_error(
    kind: str, name: str, known: Iterable[str], nearest: str | None = None
) -> UsageError:
    """A usage error that suggests the nearest known name (by spelling, if it is not provided), or lists them all."""
    names = sorted(known)
    near = [nearest] if nearest else difflib.get_close_matches(name, names, n=1, cutoff=0.5)
    hint = f"did you mean '{near[0]}'?" if near else f"there are: {list_first_names(names)}."
    return UsageError(f"unknown {kind} '{name[:LONGEST_NAME]}': {hint}")


def require_known_names(kind: str, names: Iterable[str], known: Iterable[str]) -> None:
    """Refuse the first name that is not known."""
    known = list(known)
    for name in names:
        if name not in known:
            raise make_unknown_name_error(kind, name, known)


def quote_parameter_name(name: str) -> str:
    """A parameter in a sentence; the command line shows it as its option."""
    return f"`{name}`"


def format_parameter_list(names: Iterable[str], between: str = ", ") -> str:
    return between.join(map(quote_parameter_name, names))


def format_parameters_with_verb(names: Iterable[str], of_one: str, of_several: str) -> str:
    """Parameters and the verb of a sentence about them: "`top` goes", "`top`, `sort` go"."""
    every = list(names)
    return f"{format_parameter_list(every)} {of_one if len(every) == 1 else of_several}"


def choose_it_or_them(names: Iterable[str]) -> str:
    return "it" if len(list(names)) == 1 else "them"


def format_count(number: int, thing: str, things: str = "") -> str:
    """`1 label`, `2 labels`."""
    return f"{number:,} {thing if number == 1 else things or f'{thing}s'}"


def list_first_names(names: Iterable[object]) -> str:
    """List the names, or the first of them and how many there are more."""
    every = list(map(str, names))
    more = f" and {len(every) - MOST_NAMED:,} more" if len(every) > MOST_NAMED else ""
    return ", ".join(every[:MOST_NAMED]) + more


VOWELS = "aeioAEIO"
"""Letters before which one writes `an`; u is left out for `a uint8`."""


LONGEST_REASON = 300
"""The most letters of a library's message that are shown."""


def shorten_error_text(error: BaseException) -> str:
    """The beginning of a library's message, short enough for one of our sentences."""
    lines = (line.strip() for line in str(error).splitlines())
    return next(filter(None, lines), type(error).__name__)[:LONGEST_REASON].rstrip(".:, ")


NO_MEMORY = ("allocate", "failed to map segment", "bad_alloc")
"""Messages by which libraries report lack of memory, without a type of their own: torch on a CPU, the dynamic loader, C++."""
NO_FILES = "too many open files"
FULL = (errno.ENOSPC, errno.EDQUOT)
SCARCE = (*FULL, errno.EMFILE, errno.ENFILE, errno.EAGAIN)
"""Error numbers of exhausted system resources."""


def is_memory_error(error: BaseException) -> bool:
    """Whether an error is about the machine's memory, by its type or, for libraries' errors, by its message."""
    worded = isinstance(error, RuntimeError | OSError | ImportError)
    return isinstance(error, MemoryError) or (
        worded and any(each in str(error) for each in NO_MEMORY)
    )


def translate_system_error(error: BaseException) -> AttnError | None:
    """Translate an error of the system: no memory, or an unreadable file. None where it is about neither."""
    if is_memory_error(error):
        return LimitError("out of memory: choose smaller sizes.")
    if NO_FILES in str(error).lower() and not isinstance(error, OSError):
        return InputError(f"{shorten_error_text(error)}.")
    if not isinstance(error, OSError) or isinstance(error, BrokenPipeError):
        return None
    why = (error.strerror or shorten_error_text(error)).lower()
    if error.filename is not None:
        kind = LimitError if error.errno in FULL else InputError
        return kind(f"{str(error.filename)[:LONGEST_NAME]} cannot be used: {why}.")
    if error.errno is None:  # a library's own, which names the file in its words
        return InputError(f"{shorten_error_text(error)}.")
    kind = LimitError if error.errno in SCARCE else InputError
    return kind(f"the system refuses what this run needs: {why}.")


def add_article(name: str) -> str:
    """A type's name with its article: `a list`, `an int`."""
    return f"{'an' if name.startswith(tuple(VOWELS)) else 'a'} {name}"


def capitalize_first_letter(text: str) -> str:
    """Capitalise the first letter of a sentence."""
    return text[:1].upper() + text[1:]
