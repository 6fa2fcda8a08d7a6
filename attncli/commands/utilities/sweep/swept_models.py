"""The items of a sweep: which models, in which order, and the files or addresses where their reports lie."""

import contextlib
import glob
import re
from collections.abc import Sequence
from pathlib import Path

from attncli.analysis.run_fingerprint import SOURCE, Options, compute_run_fingerprint
from attncli.errors import InputError, UsageError
from attncli.io.atomic_files import remove_abandoned_file
from attncli.io.remote_files import (
    glob_remote_files,
    is_remote_url,
    list_remote_files,
    remove_remote_file,
)
from attncli.model_and_file_sources import format_unambiguous_path, parse_source
from attncli.records import Report

LONGEST_NAME = 80
ENDING = ".json"
NUMBERS = re.compile(r"(\d+)")


def list_swept_models(
    sources: Sequence[str],
    patterns: Sequence[str],
    revisions: str | None = None,
    file: str | None = None,
) -> list[str]:
    """List the models: those named, then those of the file, then matches of the patterns in numeric
    order (checkpoint-900 before checkpoint-1000)."""
    sources = [*sources, *(() if file is None else read_model_names_from_file(file))]
    for text in sources:
        refuse_invalid_model_name(text)
    found = list(sources) if revisions is None else list_models_at_revisions(sources, revisions)
    for pattern in patterns:
        matches = sorted(find_files_by_glob_pattern(pattern), key=natural_sort_key)
        if not matches:
            raise UsageError(
                f"`glob={pattern!r}` matches nothing: quote it, and look what lies there."
            )
        found += map(format_unambiguous_path, matches)
    if not found:
        raise UsageError("there is nothing to sweep: give `model`, `glob` or `models_file`.")
    return list(dict.fromkeys(found))


def find_files_by_glob_pattern(pattern: str) -> list[str]:
    """Files and folders here, or reports at addresses."""
    return (
        glob_remote_files(pattern) if is_remote_url(pattern) else glob.glob(pattern, recursive=True)
    )


def read_model_names_from_file(file: str) -> list[str]:
    """Read one name per line; # starts a comment."""
    try:
        lines = Path(file).read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or "it is no text"
        raise UsageError(f"`models_file={file!r}` cannot be read: {why.lower()}.") from None
    return [name for line in lines if (name := line.partition("#")[0].strip())]


def refuse_invalid_model_name(text: str) -> None:
    """Refuse words that name no model, such as `--no-skip`; a model that does not exist becomes a
    failed item instead."""
    with contextlib.suppress(InputError):
        parse_source(text)


def list_models_at_revisions(sources: Sequence[str], pattern: str) -> list[str]:
    """Each hub model at every revision that matches."""
    from attncli.models.files.hub_revisions import list_hub_revisions

    found = []
    for text in sources:
        source = parse_source(text)
        if source.kind != "hub" or source.revision:
            raise UsageError(
                f"`revisions` is for Hub models named by their id, not {text}.", about=["revisions"]
            )
        matching = sorted(list_hub_revisions(source.name, pattern), key=natural_sort_key)
        found += [f"{source.name}@{revision}" for revision in matching]
    return found


def natural_sort_key(path: str) -> list[tuple[int, str]]:
    parts = NUMBERS.split(path)
    return [(int(part), "") if part.isdecimal() else (0, part) for part in parts]


def parse_training_steps(names: Sequence[str]) -> list[int]:
    """Return the last number in each name if all have one and all differ, else the indices."""
    numbers = [[int(number) for number in NUMBERS.findall(name)] for name in names]
    last = [found[-1] if found else -1 for found in numbers]
    usable = -1 not in last and len(set(last)) == len(last)
    return last if usable else list(range(len(names)))


def report_file_name(command: str, options: Options, model: str) -> str:
    """File name of a report: the model, and a digest of everything its numbers depend on.

    Other options, other versions, or other files of a checkpoint or a text make another digest: old numbers are never
    taken for new ones.
    """
    digest = compute_run_fingerprint(command, {**options, SOURCE: model})[:12]
    name = re.sub(r"[^\w.@-]+", "_", model).strip("_.")[-LONGEST_NAME:]
    return f"{name}-{digest}{ENDING}"


def read_report_if_complete(place: str) -> Report | None:
    """The report of an earlier run; a file that is no whole report does not count."""
    from attncli.reports.json_report_reading import read_report

    try:
        return read_report(place)
    except InputError:
        return None


def remove_report_file(place: str) -> None:
    """The report itself, of files that are no more."""
    if is_remote_url(place):
        remove_remote_file(place)
    else:
        Path(place).unlink(missing_ok=True)


def remove_partial_reports(place: str) -> None:
    """Half-written files of runs that were killed; they never had the item's name."""
    if is_remote_url(place):
        return
    path = Path(place)
    for leftover in path.parent.glob(f".{glob.escape(path.name)}.*"):
        remove_abandoned_file(leftover)


def list_report_files(folder: str) -> list[str]:
    """List the reports of a folder, sorted by the numbers in their names."""
    if is_remote_url(folder):
        return sorted(list_remote_files(folder, ENDING), key=natural_sort_key)
    paths = Path(folder).glob(f"*{ENDING}") if Path(folder).is_dir() else ()
    return sorted(
        (str(path) for path in paths if not path.name.startswith(".")), key=natural_sort_key
    )
