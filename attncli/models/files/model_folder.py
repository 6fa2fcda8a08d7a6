"""SOURCE as a folder whose files can be read without building a model."""

from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from attncli.errors import InputError, UsageError
from attncli.model_and_file_sources import (
    SAVED_MODELS,
    Source,
    find_similarly_named_folder,
    parse_source,
    require_accepted_file_or_model,
)


class LocalModel(NamedTuple):
    """A saved model on this machine."""

    folder: Path
    source: Source
    revision: str | None = None

    @property
    def name(self) -> str:
        """The name for people: the folder's own, or the hub's id."""
        return self.folder.name if self.source.kind == "folder" else self.source.name

    def describe_model_source(self) -> dict[str, str | None]:
        """How the report names it: the source, and a hub model's commit."""
        if self.source.kind == "folder":
            return {"kind": "folder", "path": self.source.name}
        named = {"kind": "hub", "name": self.source.name, "revision": self.revision}
        return {**named, "commit": self.folder.name}  # the hub's cache names snapshots by commit


@dataclass(frozen=True, slots=True)
class FetchSettings:
    """How a hub model is fetched; the defaults trust nothing."""

    revision: str | None = None
    offline: bool = False
    allow_pickle: bool = False
    trust_remote_code: bool = False


NOTHING_TRUSTED = FetchSettings()


def find_model_folder(
    source: Source | str, how: FetchSettings = NOTHING_TRUSTED, config_alone: bool = False
) -> LocalModel:
    """Find the folder that SOURCE names; a hub model, or its config alone, comes from the cache or is fetched."""
    source = parse_source(source) if isinstance(source, str) else source
    revision = choose_hub_revision(source, how.revision)
    require_accepted_file_or_model(source, SAVED_MODELS, "reading weights")
    if source.kind == "folder":
        if not source.path.is_dir():
            near = find_similarly_named_folder(source.path)
            hint = f"did you mean {near}?" if near else "give the folder of a saved model."
            raise InputError(f"there is no folder {source.name}: {hint}")
        return LocalModel(source.path, source)
    from attncli.models.files.hub_cache import (  # only hub models need the library
        download_snapshot,
        fetch_hub_model,
    )

    if config_alone:
        return LocalModel(
            download_snapshot(source, revision, how.offline, ("config.json",)), source, revision
        )
    folder = fetch_hub_model(source, revision, how.offline, how.allow_pickle, how.trust_remote_code)
    return LocalModel(folder, source, revision)


def choose_hub_revision(source: Source, requested: str | None) -> str | None:
    """The revision in the id or in --revision; only hub models have any."""
    if requested is not None and source.kind != "hub":
        raise UsageError(
            f"`revision` is for Hub models: {source.name} has none.", about=["revision"]
        )
    if requested and source.revision and requested != source.revision:
        raise UsageError(
            f"two revisions, {source.revision} and {requested}: leave one out.", about=["revision"]
        )
    return requested or source.revision
