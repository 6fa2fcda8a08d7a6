"""Resolve the SOURCE of each command, and build networks from SOURCE and the network options."""

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attncli.declare.commands import COMMANDS
from attncli.errors import UsageError
from attncli.io.atomic_files import resolve_links
from attncli.networks.spec import NetworkSpec
from attncli.options.shared import NetworkOptions, RunOptions
from attncli.sources import (
    MODELS,
    SAVED_MODELS,
    Kind,
    Source,
    parse_path_source,
    parse_source,
    require_kind,
)

if TYPE_CHECKING:
    from attncli.networks.network_files import FileNetwork
    from attncli.networks.weights import GeneratedNetwork
    from attncli.records import Report

SYNTHETIC: Mapping[str, Any] = {"kind": "synthetic"}

TAKES: Mapping[str, tuple[Kind, ...]] = {
    **{name.replace("-", "_"): entry.takes for name, entry in COMMANDS.items() if entry.takes},
    "head_capacity(head=...)": SAVED_MODELS,
    "approximate(pattern=FILE)": ("pattern", "maps", "fit", "weights", *MODELS),
}
"""Kinds of SOURCE by question; of the two that take others with an option, by that option too."""


def build_spec(options: NetworkOptions) -> NetworkSpec:
    """The network that the options describe."""
    given: dict[str, Any] = options.given()
    return NetworkSpec(**given)


def generate_networks(spec: NetworkSpec, run: RunOptions) -> "Sequence[GeneratedNetwork]":
    from attncli.networks.weights import GeneratedNetwork

    return [GeneratedNetwork(spec, seed) for seed in run.all_seeds()]


def resolve_source(text: str | None, asker: str, *outputs: Path | None) -> Source:
    """Resolve SOURCE; refuse kinds that this command cannot read, and files that it would
    overwrite."""
    source = parse_source(text)
    require_kind(source, TAKES[asker], f"`{asker}`")
    for output in outputs:
        if (
            source.is_file
            and output is not None
            and resolve_links(output) == resolve_links(source.path)
        ):
            raise UsageError(f"{output} is what is read: name another file to write to.")
    return source


def read_report_source(text: str, asker: str) -> "Report":
    """Resolve a saved report: always a file (`-` is stdin), whatever its name; other kinds are
    refused by name."""
    from attncli.reports import read_report

    refuse_other_files(text, asker)
    return read_report(text)


def refuse_other_files(text: str, asker: str) -> None:
    """Refuse a path whose kind is known and wrong; a missing file is refused by its reader."""
    path = Path(text)
    if path.is_file() or path.is_dir():
        source = parse_path_source(text)
        if source.kind != "other":
            require_kind(source, TAKES[asker], f"`{asker}`")


def load_network(source: Source) -> "FileNetwork":
    """Load a saved network, which fixes its own sizes, kinds and seed."""
    from attncli.networks.network_files import FileNetwork

    return FileNetwork(source.path)


def source_identity(source: Source) -> dict[str, Any]:
    with source.path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return {"kind": "network file", "path": source.name, "sha256": digest}
