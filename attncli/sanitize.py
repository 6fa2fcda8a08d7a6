"""Text that others wrote, made harmless to show: on one line, nothing invisible, no commands of a CI system.

Reports, file names and what libraries say may hold anything: escape sequences that rewrite a terminal, line breaks after
which a CI runner reads `::error::`, marks that turn the direction of writing, halves of characters that no file can hold.
Whatever is printed or rendered goes through here; a format then escapes what is special in its own language.
"""

import dataclasses
import operator
import re
from collections.abc import Mapping
from typing import Any, TypeVar

T = TypeVar("T")

COMMAND = re.compile(r"##(?=\w*\[)|::(?=[A-Za-z])")
"""How runners know a command: `##[error]` and `##vso[…]` anywhere in a line, `::error::` where it begins,
which after a wrapped word may be anywhere."""
LONGEST_SENTENCE = 1000
KEPT_END = 300
"""Letters kept of a truncated sentence's end, which says what to do."""


def make_characters_visible(text: str) -> str:
    """The text on one line, with every character that cannot be seen, or acts, spelled out."""
    if not text.isprintable():
        text = "".join(c if c.isprintable() else escape_character(c) for c in text)
    return COMMAND.sub(escape_ci_command, text) if "::" in text or "##" in text else text


def escape_character(character: str) -> str:
    """As Python writes it: `\\n`, `\\x1b`, `\\u202e`."""
    return character.encode("unicode_escape", "surrogatepass").decode()


def escape_ci_command(command: re.Match[str]) -> str:
    """Escape a CI command's last character by number: no runner takes it for a command, and a reader still sees it."""
    return f"{command[0][:-1]}\\x{ord(command[0][-1]):02x}"


def sanitize_json(text: str) -> str:
    """Sanitize a JSON text: the same meaning, with everything inside strings visible."""
    if not text.replace("\n", "").isprintable():
        text = "".join(c if c.isprintable() or c == "\n" else json_escape(c) for c in text)
    return text.replace("##", "#\\u0023") if COMMAND.search(text) else text


def json_escape(character: str) -> str:
    """JSON's escape: one or two units of UTF-16."""
    units = character.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[i : i + 2].hex()}" for i in range(0, len(units), 2))


def sanitize_sentence(text: str) -> str:
    """A visible line of readable length: of a longer one its beginning and its end."""
    text = make_characters_visible(text)
    if len(text) <= LONGEST_SENTENCE:
        return text
    return f"{text[: LONGEST_SENTENCE - KEPT_END]} … {text[-KEPT_END:]}"


def sanitize_value(value: T) -> T:
    """Sanitize every text in records, mappings and lists; clean ones stay the very same object."""
    changed: Any = value
    if value is None or isinstance(value, int | float):
        return value
    if isinstance(value, str):
        changed = make_characters_visible(value)
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        parts = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
        seen = sanitize_value(parts)
        changed = value if seen is parts else type(value)(**seen)
    elif isinstance(value, Mapping):
        names, held = sanitize_value(list(value)), sanitize_value(list(value.values()))
        same = names == list(value) and all(map(operator.is_, held, value.values()))
        changed = value if same else dict(zip(names, held, strict=True))
    elif isinstance(value, tuple | list):
        items = [sanitize_value(item) for item in value]
        changed = value if all(map(operator.is_, items, value)) else type(value)(items)
    return changed  # type: ignore[no-any-return]
