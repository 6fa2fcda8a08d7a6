"""Detect files that change while they are read."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from attncli.errors import InputError


class FileVersion(NamedTuple):
    """Identifies a version of a file: compare it after reading."""

    path: Path
    inode: int
    size: int
    modified: int


def record_file_versions(files: Sequence[Path]) -> list[FileVersion]:
    try:
        stats = [path.stat() for path in files]
    except OSError as error:
        raise InputError(f"{error.filename} cannot be read: {error.strerror}.") from None
    return [
        FileVersion(path, stat.st_ino, stat.st_size, stat.st_mtime_ns)
        for path, stat in zip(files, stats, strict=True)
    ]


def refuse_changed_files(before: Sequence[FileVersion]) -> None:
    """Refuse a file that changed while it was read: its weights would mix two moments, and the hash cover one."""
    for old, new in zip(
        before, record_file_versions([stamp.path for stamp in before]), strict=True
    ):
        if old != new:
            raise InputError(f"{old.path} was changed while it was read: run again.")
