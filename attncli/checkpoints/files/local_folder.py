"""SOURCE as a folder whose files can be read without building a model."""

from pathlib import Path
from typing import NamedTuple

from attncli.checkpoints.sources import Source, parse
from attncli.errors import InputError, UsageError


class Local(NamedTuple):
    """A saved model on this machine."""

    folder: Path
    source: Source

    @property
    def name(self) -> str:
        """What people call it: the folder's own name, or the hub's id."""
        return self.folder.name if self.source.kind == "folder" else self.source.name

    def described(self) -> dict[str, str | None]:
        """For the report: how it was named, and a hub model's commit."""
        if self.source.kind == "folder":
            return {"kind": "folder", "path": self.source.name}
        named = {"kind": "hub", "name": self.source.name, "revision": self.source.revision}
        return {**named, "commit": self.folder.name}  # the cache names snapshots so


def local_folder(text: str, offline: bool = False, config_alone: bool = False) -> Local:
    """The folder that SOURCE names; a hub model, or its config alone, is taken from the cache, or fetched there."""
    source = parse(text)
    if source.kind == "random":
        raise UsageError(
            f"{text} has no files to read weights from: save a random model in a folder and give that."
        )
    if source.kind == "file":
        raise UsageError(f"{text} is one file: a model is a folder with its config.json.")
    if source.kind == "folder":
        if not source.path.is_dir():
            raise InputError(f"{text} is not a folder: give the folder of a saved model.")
        return Local(source.path, source)
    from attncli.checkpoints.files.hub import fetched, snapshot  # only hub models need the library

    if config_alone:
        return Local(snapshot(source, source.revision, offline, ("config.json",)), source)
    folder = fetched(source, source.revision, offline, allow_pickle=False, trust_remote_code=False)
    return Local(folder, source)
