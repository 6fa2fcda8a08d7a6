"""Results of single texts, saved next to the report, so that a killed run can be resumed.

The folder FILE.parts exists until the report FILE is complete. A result is only reused
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

from attncli.distributed_ranks import read_launch_environment
from attncli.progress import Say, ignore_message

Keep = Callable[[str, Callable[[], Any]], Any]
"""keep(name, make): the result saved under the name, or a new one, which is then saved."""

ENDING = ".parts"


class ResumeCache:
    """The cache folder of one report; without one nothing is saved."""

    def __init__(self) -> None:
        self.folder: Path | None = None
        self.facts: Callable[[], str] = str
        self.say: Say = ignore_message
        self.full = False
        """Whether one could not be written: no other is tried."""

    def start_saving_results(
        self, output: Path, facts: Callable[[], str], say: Say = ignore_message
    ) -> int:
        """Save results for this report from now on; return how many an earlier run has left.

        `facts`: what results depend on besides the model and the text; called when there is a first
        result.
        """
        self.folder = output.with_name(output.name + ENDING)
        self.facts = cache(facts)
        self.say, self.full = say, False
        return len(list(self.folder.glob("*.pt")))

    def delete_saved_results(self) -> None:
        """End the cache, once the report exists."""
        if self.folder is not None:
            shutil.rmtree(self.folder, ignore_errors=True)
            self.folder = None

    def path_of_saved_result(self, name: str) -> Path | None:
        if self.folder is None:
            return None
        digest = hashlib.sha256(f"{self.facts()} {name}".encode()).hexdigest()
        return self.folder / f"{digest[:32]}.pt"

    def disable_cache_after_error(self, error: OSError) -> None:
        """Go on without the cache after an error: the run matters more."""
        self.full = True
        why = (error.strerror or str(error)).lower()
        self.say(
            f"finished texts are no longer kept in {self.folder} ({why}): an interrupted run would begin again with these."
        )


PARTS = ResumeCache()
"""Of this process."""


def load_or_compute_result(types: Sequence[type], name: str, compute: Callable[[], object]) -> Any:
    """The result saved under the name, or a new one, which is then saved: of these types, of tensors, and of plain numbers,
    strings and containers."""
    path = PARTS.path_of_saved_result(name)
    if path is None:
        return compute()
    found = read_cached_result(path, types)
    if found is None:
        found = compute()
        try_write_cached_result(path, found)
    return found


def read_cached_result(path: Path, types: Sequence[type]) -> Any:
    """Read a result with torch's restricted reader, which builds only these types; unreadable
    results are ignored."""
    import torch

    try:
        with torch.serialization.safe_globals(list(types)):
            return torch.load(path, weights_only=True)
    except Exception:
        return None


def try_write_cached_result(path: Path, result: object) -> None:
    """Save a result; if the disk is full, the run goes on, with one warning."""
    if PARTS.full:
        return
    try:
        write_cached_result(path, result)
    except OSError as error:
        PARTS.disable_cache_after_error(error)


def write_cached_result(path: Path, result: object) -> None:
    """Write a result atomically."""
    import torch

    # of a file that cannot be written torch raises a RuntimeError of its own
    content = io.BytesIO()
    torch.save(result, content)
    half = path.with_suffix(f".{read_launch_environment().rank}")
    try:
        path.parent.mkdir(exist_ok=True)
        half.write_bytes(content.getbuffer())
        os.replace(half, path)
    except OSError:
        with contextlib.suppress(OSError):
            half.unlink(missing_ok=True)
        raise
