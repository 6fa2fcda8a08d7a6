"""The items of a sweep: which models, in which order, and the files or addresses where their reports lie."""

import contextlib
import glob
import re
from collections.abc import Sequence
from pathlib import Path

from attncli.analysis.fingerprint import SOURCE, Options, fingerprint
from attncli.errors import InputError, UsageError
from attncli.io.addresses import addresses, bytes_at, files_under, is_address, remove
from attncli.io.whole_files import remove_left
from attncli.records import Report
from attncli.sources import parse, spelled

LONGEST_NAME = 80
ENDING = ".json"
NUMBERS = re.compile(r"(\d+)")


def models(
    given: Sequence[str],
    patterns: Sequence[str],
    revisions: str | None = None,
    file: str | None = None,
) -> list[str]:
    """Those named, then those of the file, then what the patterns find, numbers in their own order: checkpoint-900 before
    checkpoint-1000.
    """
    given = [*given, *(() if file is None else names_in(file))]
    for text in given:
        refuse_no_source(text)
    found = list(given) if revisions is None else at_revisions(given, revisions)
    for pattern in patterns:
        matches = sorted(matching(pattern), key=by_numbers)
        if not matches:
            raise UsageError(f"`glob={pattern!r}` matches nothing: quote it, and look what lies there.")  # fmt: skip
        found += map(spelled, matches)
    if not found:
        raise UsageError("there is nothing to sweep: give `model`, `glob` or `models_file`.")
    return list(dict.fromkeys(found))


def matching(pattern: str) -> list[str]:
    """Files and folders here, or reports at addresses."""
    return addresses(pattern) if is_address(pattern) else glob.glob(pattern, recursive=True)


def names_in(file: str) -> list[str]:
    """One name on each line; what follows a # is a remark."""
    try:
        lines = Path(file).read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or "it is no text"
        raise UsageError(f"`models_file={file!r}` cannot be read: {why.lower()}.") from None
    return [name for line in lines if (name := line.partition("#")[0].strip())]


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
                f"`revisions` goes with models of the hub by name alone, not {text}.",
                about=["revisions"],
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


def report_name(command: str, options: Options, model: str) -> str:
    """A name that says which model, and a digest of all that the numbers depend on.

    Other options, other versions, or other files of a checkpoint or a text make another digest: old numbers are never
    taken for new ones.
    """
    digest = fingerprint(command, {**options, SOURCE: model})[:12]
    name = re.sub(r"[^\w.@-]+", "_", model).strip("_.")[-LONGEST_NAME:]
    return f"{name}-{digest}{ENDING}"


def finished(place: str) -> Report | None:
    """The report of an earlier run; a file that is no whole report does not count."""
    from attncli.reports import from_json

    try:
        raw = content_of(place)
        return None if raw is None else from_json(raw)
    except InputError:
        return None


def content_of(place: str) -> bytes | None:
    if is_address(place):
        return bytes_at(place)
    path = Path(place)
    return path.read_bytes() if path.is_file() else None


def clear_away(place: str) -> None:
    """The report itself, of files that are no more."""
    if is_address(place):
        remove(place)
    else:
        Path(place).unlink(missing_ok=True)


def remove_leftovers(place: str) -> None:
    """Half-written files of runs that were killed; they never had the item's name."""
    if is_address(place):
        return
    path = Path(place)
    for leftover in path.parent.glob(f".{glob.escape(path.name)}.*"):
        remove_left(leftover)


def reports_in(folder: str) -> list[str]:
    """Every report that lies there, by the numbers in their names."""
    if is_address(folder):
        return sorted(files_under(folder, ENDING), key=by_numbers)
    paths = Path(folder).glob(f"*{ENDING}") if Path(folder).is_dir() else ()
    return sorted((str(path) for path in paths if not path.name.startswith(".")), key=by_numbers)
