"""Engines: what does many jobs at a time, one per file. An engine is opened before the work, which refuses what it cannot do.

local         warm workers on this machine
submitit      job arrays of Slurm, or processes here
dask          a scheduler, or a cluster on this machine
ray           a cluster, or one on this machine
torchrun      the processes that torchrun has started
_warm_worker  the program of a worker of `local`
_ray_driver   the program that speaks to ray
_futures      what the engines have in common that hand jobs to somebody else's scheduler

To add one, add a file with a function of its name: `name(where, options)`, given what stands behind the colon and the
`--engine-options`, returns what takes jobs and yields how each has ended, in the order in which they end. Closing it
stops the workers.

    >>> from attncli.processes.engines import parse_engine_options
    >>> parse_engine_options(["mem_gb=16", "partition=gpu"])
    {'mem_gb': 16, 'partition': 'gpu'}
"""

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence

from attncli.errors import UsageError
from attncli.processes.command_in_subprocess import ProcessRun
from attncli.processes.job_sent_to_worker import Job
from attncli.registry import Registry

EngineOptions = Mapping[str, str | int | float]
Outcomes = Generator[tuple[int, ProcessRun], None, None]
"""The index of a job and its outcome."""
Engine = Callable[[Iterable[Job], int], Outcomes]
"""Called with the jobs, taken as workers become free, and their number."""

ENGINES: Registry[Callable[[str, EngineOptions], Engine]] = Registry(
    "engine", "attncli.processes.engines"
)


def open_engine(text: str, options: Sequence[str]) -> Engine:
    """The engine that `local:4` or `dask:tcp://host:8786` names."""
    require_single_line_option("engine", text)
    name, _, where = text.partition(":")
    return ENGINES[name](where, parse_engine_options(options))


def parse_engine_options(texts: Sequence[str]) -> dict[str, str | int | float]:
    """`partition=a,timeout_min=60`, repeatable."""
    found: dict[str, str | int | float] = {}
    for text in texts:
        require_single_line_option("engine_options", text)
    for part in (part.strip() for text in texts for part in text.split(",")):
        name, equals, value = part.partition("=")
        if not (name and equals and value):
            raise UsageError(f"cannot read '{part}' of `engine_options`: write name=value,….")
        if name in found:
            raise UsageError(f"`engine_options` gives {name} twice: leave one out.")
        found[name] = parse_engine_option_value(value)
    return found


def require_single_line_option(option: str, text: str) -> None:
    """Require one line: a scheduler puts these words into a script, where a further line would be
    run."""
    if not text.isprintable():
        raise UsageError(
            f"`{option}={text!r}` holds a newline or another control character: leave it out."
        )


def parse_engine_option_value(value: str) -> str | int | float:
    for kind in (int, float):
        try:
            return kind(value)
        except ValueError:
            continue
    return value


def refuse_unknown_engine_options(
    engine: str, options: EngineOptions, known: Sequence[str]
) -> None:
    for name in options:
        if name not in known:
            takes = f"takes {', '.join(known)}" if known else "takes none"
            raise UsageError(f"{name} of `engine_options`: the engine '{engine}' {takes}.")


def make_missing_library_error(engine: str, library: str, extra: str) -> UsageError:
    return UsageError(f"`engine={engine!r}` needs {library}: pip install 'attncli[{extra}]'.")
