"""Reports on stdout, written completely or refused; sentences for people on stderr."""

import contextlib
import os
import sys
from typing import TextIO

from attncli.errors import UsageError
from attncli.io.atomic_files import make_error_from_os_error
from attncli.sanitize import sanitize_sentence


def is_terminal() -> bool:
    """Whether stdout is a terminal; a closed one is not."""
    return sys.stdout is not None and sys.stdout.isatty()


def write_stdout(text: str) -> None:
    """Write to stdout; a reader that stops reading (`| head`) is no failure, a full disk or a closed stdout is."""
    if sys.stdout is None:
        raise UsageError("cannot write to stdout: it is closed.")
    try:
        write_text_completely(sys.stdout, text)
    except BrokenPipeError:
        silence_final_flush(sys.stdout)
    except OSError as error:
        silence_final_flush(sys.stdout)
        raise make_error_from_os_error("to stdout", error) from None


def write_text_completely(stream: TextIO, text: str) -> None:
    """Write every byte, or raise: an unbuffered stdout (python -u) takes what fits and silently drops the rest."""
    binary = getattr(stream, "buffer", None)
    if binary is None:
        stream.write(text)
        return
    stream.flush()
    rest = memoryview(text.encode(stream.encoding, errors="backslashreplace"))
    while rest:
        rest = rest[binary.write(rest) :]
    binary.flush()


def silence_final_flush(stream: TextIO) -> None:
    """Redirect the interpreter's final flush of a broken stream to nowhere."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def print_to_stderr(text: str, stream: TextIO | None = None) -> None:
    """Print one line on stderr; names and messages in it are untrusted."""
    print(f"attn: {sanitize_sentence(text)}", file=stream or sys.stderr, flush=True)
