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


def escape_invisible_characters(text: str) -> str:
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
        text = "".join(
            c if c.isprintable() or c == "\n" else escape_as_json_unicode(c) for c in text
        )
    return text.replace("##", "#\\u0023") if COMMAND.search(text) else text


def escape_as_json_unicode(character: str) -> str:
    """JSON's escape: one or two units of UTF-16."""
    units = character.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[i : i + 2].hex()}" for i in range(0, len(units), 2))


def sanitize_sentence(text: str) -> str:
    """A visible line of readable length: of a longer one its beginning and its end."""
    text = escape_invisible_characters(text)
    if len(text) <= LONGEST_SENTENCE:
        return text
    return f"{text[: LONGEST_SENTENCE - KEPT_END]} … {text[-KEPT_END:]}"


NUMBERS = frozenset({int, float, bool, bytes, type(None)})
"""Types that hold no text."""


def sanitize_value(value: T) -> T:
    """Sanitize every text in records, mappings and lists; clean ones stay the very same object."""
    found: Any = value
    if type(value) in NUMBERS:
        return value
    if isinstance(value, str):
        found = escape_invisible_characters(value)
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        found = sanitize_record(value)
    elif isinstance(value, Mapping):
        found = sanitize_mapping(value)
    elif isinstance(value, tuple | list):
        found = sanitize_sequence(value)
    return found  # type: ignore[no-any-return]


def sanitize_record(record: Any) -> Any:
    kind: Any = type(record)
    names = [field.name for field in dataclasses.fields(kind)]
    values = tuple(getattr(record, name) for name in names)
    seen = sanitize_sequence(values)
    return record if seen is values else kind(**dict(zip(names, seen, strict=True)))


def sanitize_mapping(mapping: Mapping[Any, Any]) -> Mapping[Any, Any]:
    names, values = tuple(mapping), tuple(mapping.values())
    seen_names, seen = sanitize_sequence(names), sanitize_sequence(values)
    same = seen_names is names and seen is values
    return mapping if same else dict(zip(seen_names, seen, strict=True))


def sanitize_sequence(items: list[object] | tuple[object, ...]) -> Any:
    """Of a tuple or a list; long ones of numbers alone are passed over quickly."""
    if NUMBERS.issuperset(map(type, items)):
        return items
    seen = [sanitize_value(item) for item in items]
    return items if all(map(operator.is_, seen, items)) else type(items)(seen)
