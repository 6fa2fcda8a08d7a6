"""The entry: environment before heavy imports, and the one place where errors become a sentence and an exit code."""

import atexit
import contextlib
import gc
import os
import re
import sys
from collections.abc import Sequence
from typing import Any

from attncli.cli.command_tree import PARSER_WORDS
from attncli.distributed_ranks import read_launch_environment
from attncli.errors import AttnError, UsageError, translate_system_error
from attncli.io.standard_streams import print_to_stderr, silence_final_flush, write_stdout
from attncli.resource_limits import parse_whole_number

INTERRUPTED = 130
BUG = 70
"""EX_SOFTWARE: differs from all codes that describe the input."""
COMPLETION = "_ATTN_COMPLETE"
"""Environment variable with which a shell asks for completions."""
UNKNOWN = re.compile(r"No such (option|command):? '?([^\s']+)'?")
"""typer's words, which it follows by similar names of its own choice."""
SELDOM = 100
"""Collections of the middle generation before one of the oldest."""


def main() -> None:
    """The `attn` command."""
    set_environment_variables()
    reduce_garbage_collections()
    if read_launch_environment().is_distributed:
        from attncli.cli.run_in_distributed_processes import run_distributed

        sys.exit(run_distributed(sys.argv[1:], run_command_line, print_error))
    if COMPLETION in os.environ:
        from attncli.cli.shell_completion import run_shell_completion

        sys.exit(run_shell_completion(lambda: run_command_line(sys.argv[1:])))
    sys.exit(run_command_line(sys.argv[1:]))


def set_environment_variables() -> None:
    """Set the environment variables that numpy and typer read at import; the user's own values
    stay."""
    # One BLAS thread: the products are small, waking more threads costs more than they give (25 × on two busy
    # cores), and the last bit does not depend on the number of cores.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    # torch's threads sleep between their tasks instead of spinning: on a busy machine they would take several times
    # the time of the work itself.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    for name in ("COLUMNS", "LINES", "TERMINAL_WIDTH"):  # what draws would stumble over them
        if parse_whole_number(os.environ.get(name, "0")) is None:
            del os.environ[name]
    if sys.stdout is None or not sys.stdout.isatty():
        # Under GitHub Actions typer colours its help even on a pipe, and cuts it at 80 columns.
        os.environ.setdefault("_TYPER_FORCE_DISABLE_TERMINAL", "1")
        os.environ.setdefault(
            "TERMINAL_WIDTH", str(parse_whole_number(os.environ.get("COLUMNS", "")) or 120)
        )
    if sys.stderr is None:  # closed by the caller: nobody wants to hear
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")


def reduce_garbage_collections() -> None:
    """Make full garbage collections ten times rarer, and skip the one at exit.

    torch and transformers are half a million objects that stay: they would be traversed six times
    during their import and once more at the end, which is a third of a short run. The young
    generation is collected as usual, so that the tensors of a run do not wait.
    """
    young, middle, old = gc.get_threshold()
    gc.set_threshold(young, middle, max(old, SELDOM))
    atexit.register(gc.freeze)


def run_command_line(arguments: Sequence[str]) -> int:
    """Run one command line and return its exit code."""
    debug = "--debug" in arguments
    if list(arguments).count("--debug") > 1:
        return print_error("--debug is given twice: leave one out.", UsageError.exit_code)
    try:
        for part in arguments:  # no file, model or number has one, and system functions raise on it
            if "\0" in part:
                raise UsageError(f"the argument '{part}' holds a NUL character: leave it out.")
        return run_typer_app(arguments)
    except KeyboardInterrupt:
        return print_error("interrupted.", INTERRUPTED)
    except BrokenPipeError:
        silence_final_flush(sys.stdout)
        return 0
    except Exception as error:
        if debug:
            show_traceback(error)
        return print_error_and_choose_exit_code(error)


def print_error_and_choose_exit_code(error: Exception) -> int:
    """Print the message of an error and return its exit code."""
    known = error if isinstance(error, AttnError) else translate_system_error(error)
    if known is not None:
        from attncli.cli.parameter_names_as_options import replace_parameters_by_options

        return print_error(replace_parameters_by_options(str(known)), known.exit_code)
    sentence = f"{type(error).__name__}: {error}. This is a bug in attn: --debug shows where."
    return print_error(sentence, BUG)


def show_traceback(error: Exception) -> None:
    import traceback

    with contextlib.suppress(OSError):
        traceback.print_exception(error)


def run_typer_app(arguments: Sequence[str]) -> int:
    """Let typer parse and run; its own errors become one sentence too."""
    import typer

    from attncli.cli.app import build_app

    try:
        code = build_app()(list(arguments), prog_name="attn", standalone_mode=False)
    except typer.Abort:
        raise KeyboardInterrupt from None
    except typer.TyperException as error:
        if type(error).__name__ == "NoArgsIsHelpError":
            write_stdout(f"{error}\n")
            return 0
        return print_error(format_usage_error(error), getattr(error, "exit_code", 2))
    except SystemExit as error:
        # rich and typer answer a broken pipe with exit code 1; a reader that has seen enough is no failure.
        if isinstance(error.__context__, BrokenPipeError):
            silence_final_flush(sys.stdout)
            return 0
        return int(error.code or 0)
    if code == INTERRUPTED:
        raise KeyboardInterrupt
    return int(code or 0)


def format_usage_error(error: Exception) -> str:
    """Put typer's message on one line, with a pointer to the help."""
    message = getattr(error, "format_message", lambda: str(error))()
    context = getattr(error, "ctx", None)
    where = context.command_path if context is not None else "attn"
    message = " ".join(message.split()).rstrip(".")
    if context is not None and (unknown := UNKNOWN.match(message)):
        suggestion = suggest_option(unknown[2], context.command)
        if suggestion or unknown[1] == "option":
            message = f"{unknown[0]}{suggestion}"
    for theirs, ours in PARSER_WORDS.items():
        message = message.replace(theirs, ours)
    return f"{message[:1].lower()}{message[1:]} (see `{where} --help`)."


def suggest_option(typed: str, command: Any) -> str:
    """What to type instead of an unknown option or command, as the end of the message."""
    from attncli.declare.name_suggestions import suggest_option_name

    flags = [flag for each in command.params for flag in (*each.opts, *each.secondary_opts)]
    known = {flag.strip("-").replace("-", "_"): flag for flag in flags}
    if not typed.startswith("-"):  # `attn version`, `attn help`
        return f": did you mean --{typed}?" if typed in {*known, "help"} else ""
    name = suggest_option_name(typed, known)
    if name is None:
        return ""
    if not known[name].startswith("-"):
        return f": {name.upper()} is an argument, not an option"
    return f": did you mean {known[name]}?"


def print_error(sentence: str, code: int) -> int:
    """Print one line on stderr; the code is returned even if stderr is closed."""
    with contextlib.suppress(OSError):
        print_to_stderr(sentence)
        return code
    silence_final_flush(sys.stderr)
    return code
