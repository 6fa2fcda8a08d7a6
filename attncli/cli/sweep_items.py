"""The items of a sweep: which models, in which order, and the files where their reports lie."""

import glob
import hashlib
import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from attncli import __version__
from attncli.errors import InputError, UsageError
from attncli.records import Report

LONGEST_NAME = 80
NUMBERS = re.compile(r"(\d+)")


def models(
    given: Sequence[str], patterns: Sequence[str], revisions: str | None = None
) -> list[str]:
    """Those named, then what the patterns find, numbers in their own order: checkpoint-900 before checkpoint-1000."""
    found = list(given) if revisions is None else at_revisions(given, revisions)
    for pattern in patterns:
        matches = sorted(glob.glob(pattern, recursive=True), key=by_numbers)
        if not matches:
            raise UsageError(f"--glob '{pattern}' matches nothing: quote it, and look at `ls {pattern}`.")  # fmt: skip
        found += map(local, matches)
    if not found:
        raise UsageError("there is nothing to sweep: give --model A --model B or --glob PATTERN.")
    return list(dict.fromkeys(found))


def at_revisions(given: Sequence[str], pattern: str) -> list[str]:
    """Each hub model at every revision that matches."""
    from attncli.checkpoints.files.revisions import revisions
    from attncli.checkpoints.sources import parse

    found = []
    for text in given:
        source = parse(text)
        if source.kind != "hub" or source.revision:
            raise UsageError(
                f"--revisions goes with models of the hub by name alone, not {text}.",
                idle=["--revisions"],
            )
        matching = sorted(revisions(source.name, pattern), key=by_numbers)
        found += [f"{source.name}@{revision}" for revision in matching]
    return found


def local(path: str) -> str:
    """As SOURCE wants a folder: `runs/a` could be a name on the hub."""
    is_plain = Path(path).is_dir() and not path.startswith((".", "/"))
    return f"./{path}" if is_plain else path


def by_numbers(path: str) -> list[tuple[int, str]]:
    parts = NUMBERS.split(path)
    return [(int(part), "") if part.isdecimal() else (0, part) for part in parts]


def steps(names: Sequence[str]) -> list[int]:
    """The last number in each name, if they all have one and no two the same, else their places."""
    numbers = [[int(number) for number in NUMBERS.findall(name)] for name in names]
    last = [found[-1] if found else -1 for found in numbers]
    usable = -1 not in last and len(set(last)) == len(last)
    return last if usable else list(range(len(names)))


def report_path(folder: Path, words: Sequence[str], settings: Sequence[str], model: str) -> Path:
    """A name that says which model, and a digest of all that the numbers depend on.

    Other options, another attn, or changed files of a checkpoint or a text make another digest: old numbers are never
    taken for new ones.
    """
    named = [model, *(word.rpartition("=")[2] for word in words[1:])]
    facts = [
        __version__,
        *words,
        *settings,
        model,
        [list(state(Path(name).expanduser())) for name in named],
    ]
    digest = hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:12]
    name = re.sub(r"[^\w.@-]+", "_", model).strip("_.")[-LONGEST_NAME:]
    return folder / f"{name}-{digest}.json"


def state(path: Path) -> Iterator[tuple[str, int, int]]:
    """Sizes and times of a local checkpoint's files; nothing for what is not on this disk."""
    files = [path] if path.is_file() else sorted(path.glob("*")) if path.is_dir() else []
    for file in files:
        if file.is_file():
            about = file.stat()
            yield file.name, about.st_size, about.st_mtime_ns


def finished(path: Path) -> Report | None:
    """The report of an earlier run; a file that is no whole report does not count."""
    from attncli.reports import read

    if not path.is_file():
        return None
    try:
        return read(str(path))
    except InputError:
        return None
