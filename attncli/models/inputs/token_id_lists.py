"""Token ids as the user gives them: `101,2023,102`, or @FILE with JSON lists, or with one text's ids in each line."""

import json
import re
from collections.abc import Iterator, Sequence

from attncli.errors import InputError, UsageError
from attncli.io.json_files import BROKEN_JSON
from attncli.models.inputs.text_files import read_file_or_stdin

OPTION = "token_ids"
FILE = "@"
NUMBER = re.compile(r"\s*[+-]?[0-9]{1,30}\s*", re.ASCII)

Named = tuple[str, list[int]]
"""A text's name in reports, and its ids."""


def read_token_id_lists(files: Sequence[str]) -> list[Named]:
    """Read token ids: one list for each text, in the order of the command line."""
    found: list[Named] = []
    for place, text in enumerate(files, start=1):
        name = f"{OPTION} {place}" if len(files) > 1 else OPTION
        found += (
            read_token_id_file(text.removeprefix(FILE))
            if text.startswith(FILE)
            else [(name, parse_comma_separated_ids(text))]
        )
    return found


def refuse_malformed_token_ids(files: Sequence[str]) -> None:
    """Refuse ids of the command line that are no numbers; files are read later."""
    for text in files:
        if not text.startswith(FILE):
            parse_comma_separated_ids(text)


def parse_comma_separated_ids(text: str) -> list[int]:
    numbers = parse_whole_numbers(text.split(","))
    if numbers is None:
        raise UsageError(
            f"`{OPTION}={text!r}`: write whole numbers with commas, as in 101,2023,102, or @FILE."
        )
    return numbers


def parse_whole_numbers(parts: Sequence[str]) -> list[int] | None:
    """Parse whole numbers; None where a part is no number, as digits of other scripts and 1_000."""
    return [int(part) for part in parts] if all(map(NUMBER.fullmatch, parts)) else None


def read_token_id_file(path: str) -> list[Named]:
    content = read_file_or_stdin(path)
    lists = parse_json_token_ids(content) or list(parse_lines_of_token_ids(content, path))
    if not lists:
        raise InputError(f"{path} holds no token ids.")
    for place, found in enumerate(lists, start=1):
        if not found:
            raise InputError(f"{path}: list {place} holds no token ids.")
    several = len(lists) > 1
    return [(f"{path} {place}" if several else path, found) for place, found in enumerate(lists, 1)]


def parse_json_token_ids(content: str) -> list[list[int]] | None:
    """Parse a JSON list of ids, or of such lists."""
    try:
        found = json.loads(content)
    except BROKEN_JSON:
        return None
    if is_json_list_of_ids(found):
        return [found]
    return found if isinstance(found, list) and all(map(is_json_list_of_ids, found)) else None


def is_json_list_of_ids(value: object) -> bool:
    """Whether a JSON value is a list of whole numbers; true and false are none."""
    return isinstance(value, list) and all(type(each) is int for each in value)


def parse_lines_of_token_ids(content: str, path: str) -> Iterator[list[int]]:
    """Parse lines: in each a JSON list, or numbers with commas or blanks between them."""
    for number, line in enumerate(content.splitlines(), start=1):
        if not line.strip():
            continue
        listed = parse_json_token_ids(line)
        plain = parse_whole_numbers(line.replace(",", " ").split())
        found = listed[0] if listed and len(listed) == 1 else plain
        if found is None:
            raise InputError(
                f"{path}, line {number} is no list of token ids: write [101, 2023, 102] or 101,2023,102."
            )
        yield found
