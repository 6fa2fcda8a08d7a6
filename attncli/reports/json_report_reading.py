"""Read saved reports. `parse_json_report(json(report)) == report`, except for pictures, tiles and tracks,
which are not saved."""

import gc
import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import NoReturn

from attncli.errors import InputError
from attncli.io.remote_files import find_remote_file_size, is_remote_url, read_remote_file
from attncli.records import READ_VERSIONS, ROW_COLUMNS, JsonObject, Report
from attncli.reports.json_to_dataclasses import convert_json_value, make_type_mismatch_error
from attncli.resource_limits import require_memory

ADVICE = "give a report that attn has written, such as report.json"
STDIN = "-"
MOST_BYTES = 2**30
"""Millions of rows."""
MEMORY_PER_BYTE = 8
"""Bytes of memory that a byte of a file becomes: parsed and as records, both there for a moment."""
OWN_COLUMNS = (*ROW_COLUMNS, "each")
"""Names in a flat row that are fields of the record; all others are its keys."""


@contextmanager
def pause_garbage_collection() -> Iterator[None]:
    """Make many records without the garbage collector, which would look through all of them again and again.

    None refers back to another, so that it finds nothing. It is left as it was. Also a decorator, `@pause_garbage_collection()`.
    """
    running = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if running:
            gc.enable()


def read_report(path: str) -> Report:
    """Read a report from a file, `-` for stdin; errors are one sentence that names the file."""
    name = "stdin" if path == STDIN else path
    if path == STDIN and sys.stdin is None:
        raise InputError(f"cannot read stdin: it is closed; {ADVICE}.")
    try:
        raw = read_report_bytes(path, name)
    except FileNotFoundError:
        raise InputError(f"there is no file {name}: {ADVICE}.") from None
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise InputError(f"cannot read {name}: {why.lower()}.") from None
    require_readable_size(len(raw), name)
    try:
        return parse_json_report(raw)
    except InputError as error:
        raise InputError(f"{name}: {error}") from None


def is_existing_report(path: str) -> bool:
    """Whether there is a file of this name or at this address."""
    return find_remote_file_size(path) is not None if is_remote_url(path) else Path(path).exists()


def read_report_bytes(path: str, name: str) -> bytes:
    """The bytes of a file, of stdin or of an address, once their number is known to be no larger
    than a report's; of a device, which has no end, one byte more than a report can have."""
    if is_remote_url(path):
        require_readable_size(find_remote_file_size(path) or 0, name)
        found = read_remote_file(path)
        if found is None:
            raise FileNotFoundError(path)
        return found
    with nullcontext(sys.stdin.buffer) if path == STDIN else open(path, "rb") as file:
        with suppress(OSError, ValueError):  # of what is no file, such as a pipe
            require_readable_size(os.fstat(file.fileno()).st_size, name)
        return file.read(MOST_BYTES + 1)


def require_readable_size(size: int, name: str) -> None:
    """Refuse what is longer than any report, or needs more memory than there is."""
    if size > MOST_BYTES:
        raise InputError(f"{name}: it is longer than any report, {MOST_BYTES:,} bytes: {ADVICE}.")
    require_memory(MEMORY_PER_BYTE * size, f"{name}, read whole,", "save fewer metrics or texts")


@pause_garbage_collection()
def parse_json_report(text: str | bytes) -> Report:
    """A report of any schema version that has ever been written."""
    document = parse_json(text)
    require_schema_version(document)
    rows = document.get("rows", ())
    if isinstance(rows, list):
        document["rows"] = [
            collect_report_row_keys(row, f"rows[{index}]") for index, row in enumerate(rows)
        ]
    try:
        report: Report = convert_json_value(Report, document, "the report")
    except InputError as error:
        raise InputError(f"{error}: {ADVICE}.") from None
    return report


def parse_json(text: str | bytes) -> JsonObject:
    try:
        document = json.loads(text, parse_constant=refuse_nan_and_infinity)
    except (ValueError, RecursionError) as error:
        why = "it is nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise InputError(f"this is no JSON document ({why}): {ADVICE}.") from None
    if not isinstance(document, dict) or "schema_version" not in document:
        raise InputError(f"this is no report, it has no schema_version: {ADVICE}.")
    return document


def refuse_nan_and_infinity(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def require_schema_version(document: JsonObject) -> None:
    """Versions are refused, never guessed at: numbers under a changed meaning would be wrong ones."""
    version = document["schema_version"]
    if isinstance(version, bool) or not isinstance(version, int):
        raise make_type_mismatch_error("schema_version", "a whole number", version)
    if version not in READ_VERSIONS:
        advice = "update attn" if version > max(READ_VERSIONS) else "measure again"
        known = " and ".join(map(str, READ_VERSIONS))
        raise InputError(
            f"schema_version {version} is unknown to this attn, which reads {known}: {advice}."
        )


def collect_report_row_keys(row: object, where: str) -> JsonObject:
    """Gather the further axes of a flat row, as the record has them."""
    if not isinstance(row, dict):
        raise make_type_mismatch_error(where, "an object", row)
    own = {name: row[name] for name in OWN_COLUMNS if name in row}
    return {**own, "keys": {name: row[name] for name in row if name not in own}}
