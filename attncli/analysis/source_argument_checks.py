"""The SOURCE of each command: which kinds it takes, and what it refuses by name; what a report says of a network."""

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from attncli.declare.command_table import COMMANDS
from attncli.errors import AttnError, UsageError
from attncli.io.atomic_files import resolve_symbolic_links
from attncli.io.file_kind_detection import detect_file_kind
from attncli.model_and_file_sources import (
    MODELS,
    SAVED_MODELS,
    Kind,
    Source,
    parse_source,
    require_accepted_file_or_model,
)

if TYPE_CHECKING:
    from attncli.records import Report

TAKES: Mapping[str, tuple[Kind, ...]] = {
    **{name.replace("-", "_"): entry.takes for name, entry in COMMANDS.items() if entry.takes},
    "head_capacity(head=...)": SAVED_MODELS,
    "approximate(pattern=FILE)": ("pattern", "maps", "fit", "weights", *MODELS),
}
"""Kinds of SOURCE by question; of the two that take others with an option, by that option too."""


def resolve_source_argument(text: str | None, asker: str, *outputs: Path | None) -> Source:
    """Resolve SOURCE; refuse kinds that this command cannot read, and files that it would
    overwrite."""
    source = parse_source(text)
    require_accepted_file_or_model(source, TAKES[asker], f"`{asker}`")
    for output in outputs:
        if (
            output is not None
            and source.is_file
            and resolve_symbolic_links(output) == resolve_symbolic_links(source.path)
        ):
            raise UsageError(f"{output} is what is read: name another file to write to.")
    return source


def describe_network_source(source: Source) -> dict[str, str]:
    """What a report says of where a network comes from."""
    if source.kind == "synthetic":
        return {"kind": "synthetic"}
    with source.path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return {"kind": "network file", "path": source.name, "sha256": digest}


def read_report_argument(text: str, asker: str) -> "Report":
    """Read a saved report: always a file (`-` is stdin), whatever its name; what cannot be read as one and is of
    another kind is refused by that."""
    from attncli.reports.json_report_reading import read_report

    try:
        return read_report(text)
    except AttnError:
        refuse_files_of_wrong_kind(text, asker)
        raise


def refuse_files_of_wrong_kind(text: str, asker: str) -> None:
    """Refuse a path whose kind is known and wrong; a missing file is refused by its reader."""
    path = Path(text)
    kind = detect_file_kind(path) if path.is_file() else "folder" if path.is_dir() else "other"
    if kind != "other":
        require_accepted_file_or_model(Source(kind, text), TAKES[asker], f"`{asker}`")
