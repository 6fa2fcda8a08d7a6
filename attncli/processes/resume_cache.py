"""Results of single texts, kept beside the report that they are for, so that a run which was killed can be gone on with.

The folder FILE.parts is there while the report FILE is not: it goes when all is done. A result is only taken from it
if the command, the settings, the versions, the model's weights and the text are the same.
"""

import contextlib
import hashlib
import io
import os
import shutil
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from attncli.ranks import read_launch

Keep = Callable[[str, Callable[[], Any]], Any]
"""keep(name, make): what is kept under the name, or what is made now and kept from now on."""

ENDING = ".parts"


def ignore_sentence(sentence: str) -> None:
    """Nobody listens."""


def make_without_cache(name: str, make: Callable[[], Any]) -> Any:
    """Nothing outlives the process."""
    return make()


class ResumeCache:
    """The folder of one report; without one nothing is kept."""

    def __init__(self) -> None:
        self.folder: Path | None = None
        self.facts: Callable[[], str] = str
        self.say: Callable[[str], None] = ignore_sentence
        self.full = False
        """Whether one could not be written: no other is tried."""

    def begin(
        self, output: Path, facts: Callable[[], str], say: Callable[[str], None] = ignore_sentence
    ) -> int:
        """Keep results for this report from now on; returns how many an earlier run has left.

        `facts`: all that they depend on beside the model and the text; asked for once there is a result to keep.
        """
        self.folder = cache_folder(output)
        self.facts = cache(facts)
        self.say, self.full = say, False
        return len(list(self.folder.glob("*.pt")))

    def end(self) -> None:
        """The report is there."""
        if self.folder is not None:
            shutil.rmtree(self.folder, ignore_errors=True)
            self.folder = None

    def path(self, name: str) -> Path | None:
        if self.folder is None:
            return None
        digest = hashlib.sha256(f"{self.facts()} {name}".encode()).hexdigest()
        return self.folder / f"{digest[:32]}.pt"

    def go_on_without(self, error: OSError) -> None:
        """The run is worth more than its being kept."""
        self.full = True
        why = (error.strerror or str(error)).lower()
        self.say(f"finished texts are no longer kept in {self.folder} ({why}): an interrupted run would begin again with these.")  # fmt: skip


def cache_folder(output: Path) -> Path:
    """Where the results of this report are kept."""
    return output.with_name(output.name + ENDING)


PARTS = ResumeCache()
"""Of this process."""


def build_result_cache(*types: type) -> Keep:
    """Keeps results that are made of these types, of tensors and of plain numbers, words and containers."""

    def keep(name: str, make: Callable[[], Any]) -> Any:
        path = PARTS.path(name)
        if path is None:
            return make()
        found = read_result(path, types)
        if found is None:
            found = make()
            try_write_result(path, found)
        return found

    return keep


def read_result(path: Path, types: Sequence[type]) -> Any:
    """torch's restricted reader builds nothing but the types named; what it cannot read does not count."""
    import torch

    try:
        with torch.serialization.safe_globals(list(types)):
            return torch.load(path, weights_only=True)
    except Exception:
        return None


def try_write_result(path: Path, result: Any) -> None:
    """Where there is no room for it, the run goes on all the same, and this is said once."""
    if PARTS.full:
        return
    try:
        write_result(path, result)
    except OSError as error:
        PARTS.go_on_without(error)


def write_result(path: Path, result: Any) -> None:
    """Whole or not at all."""
    import torch

    content = (
        io.BytesIO()
    )  # of a file that cannot be written torch raises a RuntimeError of its own
    torch.save(result, content)
    half = path.with_suffix(f".{read_launch().rank}")
    try:
        path.parent.mkdir(exist_ok=True)
        half.write_bytes(content.getbuffer())
        os.replace(half, path)
    except OSError:
        with contextlib.suppress(OSError):
            half.unlink(missing_ok=True)
        raise
