"""One case in a process of its own, forked from one that has imported everything: milliseconds instead of seconds."""

import gc
import os
import select
import signal
import sys
import time
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

Check = Callable[[Path, str, int], str | None]
"""What an independent computation says of the output of a finished run in a folder: nothing, or what is wrong."""

CODES = (0, 1, 2, 3, 4, 5)
LONGEST_LINE = 1100
MOST_MEMORY = 3 * 2**30
"""Bytes beside those of the process that was forked."""
WALL = 15
"""A busy machine may take so many times the patience in CPU time."""


@dataclass(frozen=True)
class Case:
    """A command line in a folder of broken files."""

    arguments: list[str]
    check: Check | None = None
    output: str | None = None
    """The file that the command writes."""
    stdin: bytes = b""
    environment: Mapping[str, str] = field(default_factory=dict)
    of_many: bool = False
    """Its output tells what could not be done, and the rest is done: stderr may have a line for each, or none."""
    begin: Callable[[], None] | None = None
    """Called in the process of the case, before its command."""


@dataclass(frozen=True)
class Ending:
    """How it ended."""

    code: int
    faults: tuple[str, ...]
    err: str


def load_everything() -> None:
    """What commands import, so that no child needs to."""
    from attncli.cli.main import set_environment_variables

    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    set_environment_variables()
    import torch
    import transformers  # noqa: F401

    import attncli.analysis.load_and_verify_model
    import attncli.cli.app
    import attncli.commands.approximate.run
    import attncli.commands.inspect_maps.run
    import attncli.commands.inspect_model.run
    import attncli.commands.paths.run_trained_model
    import attncli.commands.verify_fit.report  # noqa: F401

    torch.set_num_threads(1)
    gc.collect()
    gc.freeze()  # the collector of a child would touch, and so copy, all of its parent


def ended(case: Case, folder: Path, patience: float) -> Ending:
    """Run the case and look at all that it leaves."""
    streams = folder.parent / f"{folder.name}.streams"
    streams.mkdir()
    (streams / "in").write_bytes(case.stdin)
    before = {path.name for path in folder.iterdir()}
    child = os.fork()
    if child == 0:
        in_child(case, folder, streams)
    hung = not finished(child, patience)
    if hung:
        os.kill(child, signal.SIGKILL)
    _, status, usage = os.wait4(child, 0)
    err = (streams / "err").read_text(errors="replace")
    code = -1 if hung else os.waitstatus_to_exitcode(status)
    memory = usage.ru_maxrss * 1024 - own_memory()
    faults = [*faults_of(case, code, hung, err, memory), *left(case, folder, before, code)]
    if (streams / "wrong").exists():
        faults.append(f"wrong number: {(streams / 'wrong').read_text()}")
    return Ending(code, tuple(faults), err)


def in_child(case: Case, folder: Path, streams: Path) -> None:
    """Never returns."""
    code = 99
    try:
        os.chdir(folder)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        for number, (name, flags) in enumerate(
            {
                "in": os.O_RDONLY,
                "out": os.O_WRONLY | os.O_CREAT,
                "err": os.O_WRONLY | os.O_CREAT,
            }.items()
        ):
            os.dup2(os.open(streams / name, flags, 0o600), number)
        sys.stdin = os.fdopen(0, "r", closefd=False)
        sys.stdout = os.fdopen(1, "w", encoding="utf-8", errors="backslashreplace", closefd=False)
        sys.stderr = os.fdopen(2, "w", encoding="utf-8", errors="backslashreplace", closefd=False)
        os.environ.update(case.environment)
        sys.argv = ["attn", *case.arguments]
        from attncli.cli.main import run_command_line

        if case.begin is not None:
            case.begin()
        code = run_command_line(case.arguments)
        sys.stdout.flush()
        sys.stderr.flush()
        if case.check is not None and code in (0, 1):
            os.dup2(
                os.open(os.devnull, os.O_WRONLY), 2
            )  # what the other computation says is not ours
            wrong = case.check(folder, (streams / "out").read_text(), code)
            if wrong:
                (streams / "wrong").write_text(wrong)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


def finished(child: int, patience: float) -> bool:
    """Wait until it ends, or has had its time on a processor."""
    handle = os.pidfd_open(child)
    began = time.monotonic()
    try:
        while not select.select([handle], [], [], 1.0)[0]:
            if processor_time(child) > patience or time.monotonic() - began > WALL * patience:
                return False
        return True
    finally:
        os.close(handle)


def processor_time(child: int) -> float:
    fields = Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def own_memory() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def faults_of(case: Case, code: int, hung: bool, err: str, memory: int) -> list[str]:
    """Whatever a user must never see."""
    found = []
    if hung:
        return ["hang"]
    if code < 0:
        found.append(f"signal {-code}")
    elif code == 70:
        found.append("exit 70")
    elif code not in CODES:
        found.append(f"exit {code}")
    lines = err.splitlines()
    if "Traceback (most recent call last)" in err or "panicked at" in err:
        found.append("traceback")
    elif any(not line.startswith("attn: ") for line in lines):
        found.append("noise")
    if code >= 2 and len(lines) != 1 and not case.of_many:
        found.append(f"{len(lines)} lines of error")
    if any(len(line) > LONGEST_LINE or not line.isprintable() for line in lines):
        found.append("unreadable line")
    if memory > MOST_MEMORY:
        found.append(f"memory {memory / 2**30:.1f} GiB")
    return found


def left(case: Case, folder: Path, before: set[str], code: int) -> list[str]:
    """A file that was asked for is there, whole, or it is not; nothing else is."""
    new = {path.name for path in folder.iterdir()} - before
    spoilt = {name for name in new if name.startswith(".") or code not in (0, 1)}
    found = [f"partial file {name}" for name in sorted(spoilt)]
    if case.output and code == 0 and case.output not in new | before:
        found.append(f"no file {case.output}")
    return found
