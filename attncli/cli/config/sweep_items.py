"""The items of a sweep: which models, in which order, and the files where their reports lie."""

import contextlib
import glob
import re
from collections.abc import Sequence
from pathlib import Path

from attncli.cli.config.fingerprint import SOURCE, Options, fingerprint
from attncli.errors import InputError, UsageError
from attncli.models.sources import parse, spelled
from attncli.records import Report

LONGEST_NAME = 80
NUMBERS = re.compile(r"(\d+)")


def models(
    given: Sequence[str], patterns: Sequence[str], revisions: str | None = None
) -> list[str]:
    """Those named, then what the patterns find, numbers in their own order: checkpoint-900 before checkpoint-1000."""
    for text in given:
        refuse_no_source(text)
    found = list(given) if revisions is None else at_revisions(given, revisions)
    for pattern in patterns:
        matches = sorted(glob.glob(pattern, recursive=True), key=by_numbers)
        if not matches:
            raise UsageError(f"--glob '{pattern}' matches nothing: quote it, and look at `ls {pattern}`.")  # fmt: skip
        found += map(spelled, matches)
    if not found:
        raise UsageError("there is nothing to sweep: give --model A --model B or --glob PATTERN.")
    return list(dict.fromkeys(found))


def refuse_no_source(text: str) -> None:
    """Words that name nothing, such as `--no-skip`; what is not there is told as a failed item."""
    with contextlib.suppress(InputError):
        parse(text)


def at_revisions(given: Sequence[str], pattern: str) -> list[str]:
    """Each hub model at every revision that matches."""
    from attncli.models.files.revisions import revisions

    found = []
    for text in given:
        source = parse(text)
        if source.kind != "hub" or source.revision:
            raise UsageError(
                f"--revisions goes with models of the hub by name alone, not {text}.",
                idle=["revisions"],
            )
        matching = sorted(revisions(source.name, pattern), key=by_numbers)
        found += [f"{source.name}@{revision}" for revision in matching]
    return found


def by_numbers(path: str) -> list[tuple[int, str]]:
    parts = NUMBERS.split(path)
    return [(int(part), "") if part.isdecimal() else (0, part) for part in parts]


def steps(names: Sequence[str]) -> list[int]:
    """The last number in each name, if they all have one and no two the same, else their places."""
    numbers = [[int(number) for number in NUMBERS.findall(name)] for name in names]
    last = [found[-1] if found else -1 for found in numbers]
    usable = -1 not in last and len(set(last)) == len(last)
    return last if usable else list(range(len(names)))


def report_path(folder: Path, command: str, options: Options, model: str) -> Path:
    """A name that says which model, and a digest of all that the numbers depend on.

    Other options, other versions, or other files of a checkpoint or a text make another digest: old numbers are never
    taken for new ones.
    """
    digest = fingerprint(command, {**options, SOURCE: model})[:12]
    name = re.sub(r"[^\w.@-]+", "_", model).strip("_.")[-LONGEST_NAME:]
    return folder / f"{name}-{digest}.json"


def finished(path: Path) -> Report | None:
    """The report of an earlier run; a file that is no whole report does not count."""
    from attncli.reports import read

    if not path.is_file():
        return None
    try:
        return read(str(path))
    except InputError:
        return None
