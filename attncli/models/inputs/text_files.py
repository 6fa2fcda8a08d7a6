"""Read texts from files. Plain text is split at blank lines; of JSON and tables only the texts are taken, never the
syntax.

x.jsonl            in each line a text in quotes, or an object with its "text"
x.json             a list of such, or one
x.csv  x.tsv       the column "text"
anything else      plain text; what is marked up is refused by its ending
"""

import csv
import io
import json
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from attncli.distributed_ranks import read_launch_environment
from attncli.errors import InputError, UsageError, shorten_error_text
from attncli.io.json_files import BROKEN_JSON

STDIN = "-"
MARKED_UP = (".html", ".htm", ".xml", ".yaml", ".yml", ".toml", ".ipynb", ".rtf", ".svg")
"""Endings of markup files, which are mostly not text."""
FIELD = "text"


def read_texts_from_file(name: str) -> list[str]:
    """Read the texts of a file, by its ending."""
    ending = Path(name).suffix.lower()
    if ending in MARKED_UP:
        raise InputError(
            f'{name} is marked up: take the texts out first, into .txt, or .jsonl with a "{FIELD}" in each line.'
        )
    content = read_file_or_stdin(name)
    found = list(READERS.get(ending, split_paragraphs)(content, name))
    if not found:
        raise InputError(f"{name} holds no text.")
    return found


def read_file_or_stdin(name: str) -> str:
    """Read a file, or stdin."""
    try:
        if name == STDIN:
            refuse_shared_stdin()
            return sys.stdin.buffer.read().decode("utf-8-sig")
        return Path(name).read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError:
        raise InputError(f"{name} is no UTF-8 text: convert it first.") from None
    except OSError as error:
        raise InputError(f"{name} cannot be read: {error.strerror}.") from None


def refuse_shared_stdin() -> None:
    """Refuse stdin under several processes: each would get a part of it."""
    if read_launch_environment().is_distributed:
        raise UsageError(
            "`text_file='-'`: several processes cannot read one stdin: give a file.",
            about=["text_file"],
        )


def split_paragraphs(content: str, name: str) -> Iterator[str]:
    """Split at blank lines."""
    piece: list[str] = []
    for line in [*content.splitlines(), ""]:
        if line.strip():
            piece.append(line)
        elif piece:
            yield "\n".join(piece)
            piece = []


def read_json_lines(content: str, name: str) -> Iterator[str]:
    for number, line in enumerate(content.split("\n"), start=1):
        if line.strip():
            yield extract_text_of_record(
                parse_json_text(line, f"{name}, line {number}"), f"{name}, line {number}"
            )


def read_json_texts(content: str, name: str) -> Iterator[str]:
    found = parse_json_text(content, name)
    for number, record in enumerate(found if isinstance(found, list) else [found], start=1):
        yield extract_text_of_record(record, f"{name}, entry {number}")


def parse_json_text(content: str, where: str) -> Any:
    try:
        return json.loads(content)
    except BROKEN_JSON as error:
        why = shorten_error_text(error)
        raise InputError(
            f"{where} cannot be read as JSON: {why}; plain text goes into .txt."
        ) from None


def extract_text_of_record(record: object, where: str) -> str:
    found = record.get(FIELD) if isinstance(record, dict) else record
    if not isinstance(found, str):
        raise InputError(f'{where} has no text: write "…" or {{"{FIELD}": "…"}}.')
    return found


def read_text_column(content: str, name: str) -> Iterator[str]:
    """Read the text column of a table with a header."""
    csv.field_size_limit(sys.maxsize)  # a text is as long as it is
    delimiter = "\t" if name.lower().endswith(".tsv") else ","
    try:
        rows = csv.DictReader(io.StringIO(content, newline=""), delimiter=delimiter, strict=True)
        if FIELD not in (rows.fieldnames or ()):
            raise InputError(
                f"{name} has no column '{FIELD}' in its first line: plain text goes into .txt."
            )
        for row in rows:
            yield extract_text_of_record(row, f"{name}, line {rows.line_num}")
    except csv.Error as error:
        raise InputError(f"{name} cannot be read as a table: {error}.") from None


READERS: Mapping[str, Callable[[str, str], Iterator[str]]] = {
    ".jsonl": read_json_lines,
    ".ndjson": read_json_lines,
    ".json": read_json_texts,
    ".csv": read_text_column,
    ".tsv": read_text_column,
}
