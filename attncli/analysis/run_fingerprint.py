"""Everything that determines a run's numbers, as one digest: options from any source, the files
they name, versions.

Whatever is not known to have no effect counts: a new option, or a word that happens to be a file's
name, changes the digest and costs a run; a forgotten one would give old numbers for new ones.
"""

import hashlib
import json
import platform
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from attncli.errors import AttnError
from attncli.model_and_file_sources import expand_home_folder
from attncli.models.files.weight_files import NOT_WEIGHTS
from attncli.models.inputs.token_id_lists import FILE
from attncli.reports.provenance import LIBRARIES

SOURCE = "source"
WITHOUT_EFFECT = ("format", "output", "plot", "quiet", "no_progress", "processes")
"""Options that only affect where and how a report is shown."""
WRITTEN = ("save_maps", "save_training")
"""Options that name output files."""
WEIGHTS = (".safetensors", ".bin", ".pt", ".pth", ".ckpt")

Options = Mapping[str, Any]


def compute_run_fingerprint(command: str, options: Options, but: Sequence[str] = ()) -> str:
    """The digest. `but`: endings of files in the SOURCE's folder that are accounted for elsewhere."""
    deciding = {
        name: normalise_unset_value(value)
        for name, value in options.items()
        if name not in WITHOUT_EFFECT
    }
    files = sorted(set(find_files_named_in_options(options, but)))
    facts = [
        library_versions(),
        command,
        deciding,
        [[str(path), hash_file(path)] for path in files],
    ]
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()


def normalise_unset_value(value: object) -> Any:
    """Normalize unset values: None, whether the option takes one value or several."""
    if value is None or value in ([], ()):
        return repr(None)
    return (
        [normalise_unset_value(each) for each in value]
        if isinstance(value, list | tuple)
        else repr(value)
    )


@cache
def library_versions() -> dict[str, str]:
    """Versions of attn and of the libraries that compute or read numbers, imported or not."""
    found = {"python": platform.python_version(), "machine": platform.machine()}
    for name in ("attncli", *LIBRARIES):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = ""
    return found


def find_files_named_in_options(options: Options, but: Sequence[str]) -> Iterator[Path]:
    """Yield files whose names occur in any value, and those in the folder of a local model."""
    for name, value in options.items():
        if name in WITHOUT_EFFECT or name in WRITTEN:
            continue
        for text in iterate_texts_of_option(value):
            path = find_file_named_by_option_value(text.removeprefix(FILE))
            if path is not None and path.is_file():
                yield path
            elif path is not None and name == SOURCE:
                yield from list_model_files(path, but)


def iterate_texts_of_option(value: object) -> Iterator[str]:
    """The texts of one value or of several."""
    if isinstance(value, list | tuple):
        for each in value:
            yield from iterate_texts_of_option(each)
    elif isinstance(value, str | Path):
        yield str(value)


def find_file_named_by_option_value(text: str) -> Path | None:
    try:
        path = expand_home_folder(text)
        return path if text and path.exists() else None
    except (AttnError, OSError, ValueError):  # a text that can be no file's name
        return None


def list_model_files(folder: Path, but: Sequence[str]) -> Iterator[Path]:
    """Yield weights, config, tokenizer and code of a folder, without a trainer's own files."""
    for path in folder.glob("*"):
        if path.is_file() and path.name not in NOT_WEIGHTS and path.suffix not in but:
            yield path


def hash_file(path: Path) -> str:
    """Hash a file's bytes; cached until its size or time changes."""
    about = path.stat()
    return hash_unchanged_file(
        path, (about.st_dev, about.st_ino, about.st_size, about.st_mtime_ns, about.st_ctime_ns)
    )


@cache
def hash_unchanged_file(path: Path, state: tuple[int, ...]) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
