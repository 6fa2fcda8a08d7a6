"""Files at an address such as s3://bucket/folder/name or memory://name, by fsspec: read, and written whole or not at all."""

import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

from attncli.errors import InputError, UsageError, shorten_error_text

MARK = "://"
T = TypeVar("T")


def is_remote_url(text: str) -> bool:
    return MARK in text


def join_path_or_url(folder: str, name: str) -> str:
    """The address of a file in a folder, or below an address."""
    return f"{folder.rstrip('/')}/{name}" if is_remote_url(folder) else str(Path(folder) / name)


def open_file_system(address: str) -> tuple[Any, str]:
    """The fsspec file system of an address's protocol, and the path in it."""
    try:
        import fsspec
    except ImportError:
        raise UsageError(f"{address} needs fsspec: pip install 'attncli[remote]'.") from None
    try:
        found: tuple[Any, str] = fsspec.core.url_to_fs(address)
    except (ImportError, ValueError) as error:
        raise UsageError(f"{address} cannot be reached: {str(error).rstrip('.')}.") from None
    return found


def find_remote_file_size(address: str) -> int | None:
    """The size of the file at an address, 0 where the protocol does not tell; None where there is
    no such file."""
    return read_from_file_system(address, lambda system, path: int(system.size(path) or 0))


def read_remote_file(address: str) -> bytes | None:
    """Read an address; None where there is no such file."""
    return read_from_file_system(address, lambda system, path: bytes(system.cat_file(path)))


def read_from_file_system(address: str, read: Callable[[Any, str], T]) -> T | None:
    """Read what the function takes from the file system and the path in it; None where there is no such file."""
    system, path = open_file_system(address)
    try:
        return read(system, path)
    except FileNotFoundError:
        return None
    except Exception as error:  # every protocol has errors of its own
        raise InputError(f"{address} cannot be read: {shorten_error_text(error)}.") from None


def write_remote_file(address: str, content: bytes) -> None:
    """Write under another name first, then move: a concurrent reader finds the old file or the new one."""
    system, path = open_file_system(address)
    parent, _, name = path.rpartition("/")
    half = f"{parent}/.{name}.{uuid.uuid4().hex}" if parent else f".{name}.{uuid.uuid4().hex}"
    try:
        if parent:
            system.makedirs(parent, exist_ok=True)
        system.pipe_file(half, content)
        system.mv(half, path)
    except Exception as error:
        raise InputError(f"{address} cannot be written: {shorten_error_text(error)}.") from None


def remove_remote_file(address: str) -> None:
    system, path = open_file_system(address)
    system.rm_file(path)


def glob_remote_files(pattern: str) -> list[str]:
    """Find the addresses that match a pattern such as s3://bucket/run/*.json."""
    system, path = open_file_system(pattern)
    try:
        return [str(system.unstrip_protocol(found)) for found in system.glob(path)]
    except Exception as error:  # every protocol has errors of its own
        raise InputError(f"{pattern} cannot be read: {shorten_error_text(error)}.") from None


def list_remote_files(address: str, ending: str) -> Iterator[str]:
    """The addresses of files there, without those in folders below; names that begin with a dot are half-written."""
    system, path = open_file_system(address)
    for found in sorted(system.ls(path, detail=False) if system.exists(path) else ()):
        name = str(found).rpartition("/")[2]
        if name.endswith(ending) and not name.startswith("."):
            yield f"{address.rstrip('/')}/{name}"
