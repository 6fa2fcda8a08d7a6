"""`attn.toml`, or `[tool.attn]` of pyproject.toml: values with their line numbers, for error
messages."""

import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from attncli.errors import UsageError
from attncli.records import Facts

HEADER = re.compile(r"\s*+(\[[^\[\]]++\])\s*+(?:#.*)?")
NAME = r"""(?:[\w-]++|"[^"]*+"|'[^']*+')"""
ASSIGNMENT = re.compile(rf"\s*+({NAME}(?:\s*+\.\s*+{NAME})*+)\s*+=")
"""The quantifiers are possessive, so that a line that does not match fails in linear time."""

Keys = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ConfigFile:
    """The settings in a configuration file."""

    path: Path
    values: Facts
    lines: Mapping[Keys, int]
    """Where keys and tables begin."""
    prefix: Keys
    """The table of the file that is attn's."""

    def format_key_location(self, *keys: str) -> str:
        """`attn.toml, line 3`: the line of a key, or of the nearest table where the key is inline."""
        full = (*self.prefix, *keys)
        for size in range(len(full), 0, -1):
            if full[:size] in self.lines:
                return f"{self.path}, line {self.lines[full[:size]]}"
        return str(self.path)


def parse_config_file(path: Path) -> ConfigFile:
    prefix = ("tool", "attn") if path.name == "pyproject.toml" else ()
    try:
        text = path.read_text(encoding="utf-8")
        values: Any = tomllib.loads(text)
    except OSError as error:
        raise UsageError(f"cannot read {path}: {(error.strerror or str(error)).lower()}.") from None
    except UnicodeDecodeError:
        raise UsageError(f"{path} is no text: write it in UTF-8.") from None
    except RecursionError:
        raise UsageError(f"{path} is nested too deeply to be read.") from None
    except ValueError as error:  # tomllib's own, and numbers of thousands of digits
        raise UsageError(format_parse_error(path, str(error))) from None
    for depth, key in enumerate(prefix, start=1):
        values = values.get(key, {})
        if not isinstance(values, Mapping):
            raise UsageError(f"{path}: '{'.'.join(prefix[:depth])}' must be a table.")
    return ConfigFile(path, values, dict(reversed(list(find_lines_of_config_keys(text)))), prefix)


def format_parse_error(path: Path, message: str) -> str:
    """tomllib puts the line last, in brackets; the sentence begins with it."""
    found = re.fullmatch(r"(.*) \(at line (\d+), column \d+\)", message)
    if found is None:
        return f"{path}: {message[:1].lower()}{message[1:]}."
    return f"{path}, line {found[2]}: {found[1][:1].lower()}{found[1][1:]}."


def find_lines_of_config_keys(text: str) -> Iterator[tuple[Keys, int]]:
    """Locate keys and tables by line; tomllib parses each key, so quotes and dots are read
    correctly."""
    table: Keys = ()
    for number, line in enumerate(text.splitlines(), start=1):
        if header := HEADER.fullmatch(line):
            table = parse_toml_key_path(header[1])
            yield table, number
        elif assignment := ASSIGNMENT.match(line):
            yield (*table, *parse_toml_key_path(f"{assignment[1]} = 0")), number


def parse_toml_key_path(text: str) -> Keys:
    """Parse the names in `[a.b]` or `a.b = 0`; empty where a line of a multi-line string only
    resembles one."""
    try:
        value: object = tomllib.loads(text)
    except (ValueError, RecursionError):
        return ()
    found: list[str] = []
    while isinstance(value, dict) and value:
        ((name, value),) = value.items()
        found.append(name)
    return tuple(found)
