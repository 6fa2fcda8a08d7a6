"""What goes to stdout, whole or told: whoever else meets an error of the system was not writing there."""

import contextlib
import os
import sys
from typing import TextIO

from attncli.errors import UsageError
from attncli.io.whole_files import os_error_sentence


def is_terminal() -> bool:
    """Whether a person reads stdout as it is written; one that is closed is none."""
    return sys.stdout is not None and sys.stdout.isatty()


def write_stdout(text: str) -> None:
    """A reader that stops reading (`| head`) is no failure; a full disk is, and so is a closed stdout."""
    if sys.stdout is None:
        raise UsageError("cannot write to stdout: it is closed.")
    try:
        write_all(sys.stdout, text)
    except BrokenPipeError:
        silence(sys.stdout)
    except OSError as error:
        silence(sys.stdout)
        raise os_error_sentence("to stdout", error) from None


def write_all(stream: TextIO, text: str) -> None:
    """Every byte, or an error: an unbuffered stdout (python -u) takes what fits and drops the rest in silence."""
    binary = getattr(stream, "buffer", None)
    if binary is None:
        stream.write(text)
        return
    stream.flush()
    rest = memoryview(text.encode(stream.encoding, errors="backslashreplace"))
    while rest:
        rest = rest[binary.write(rest) :]
    binary.flush()


def silence(stream: TextIO) -> None:
    """Let the interpreter's own last flush of a broken stream go nowhere."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
