"""SOURCE on the command line: which model is meant, decided from its words alone.

org/name[@revision]                     a model of the hub, or of its cache; also a bare id such as bert-base-uncased
./dir  ../dir  /dir  ~/dir              a folder on this machine, always
random:ARCH[?layers=2&width=64&…]       any model type of transformers with seeded random weights
file.safetensors                        one file that exists: a network or maps, which the caller tells apart
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from attncli.checkpoints.files.weight_files import refuse_gguf
from attncli.errors import InputError, UsageError

Kind = Literal["hub", "folder", "random", "file"]

GRAMMAR = "write org/name[@revision], ./dir, random:ARCH[?layers=2&width=64], or the path of a .safetensors file"
LOCAL = re.compile(r"(~|/|\./|\.\./|\.\.?$)")
WORD = r"[A-Za-z0-9_](?:[A-Za-z0-9_.-]*[A-Za-z0-9_])?"
HUB_ID = re.compile(rf"(?P<name>{WORD}(?:/{WORD})?)(?:@(?P<revision>[\w./-]+))?")
ARCHITECTURE = re.compile(r"(?P<name>[A-Za-z0-9_.-]+)(?:\?(?P<sizes>.*))?")
SIZE = re.compile(r"(?P<name>[A-Za-z][A-Za-z0-9_.-]*)(?:=(?P<value>[A-Za-z0-9_.+-]{1,40}))?")

Size = str | int | float


@dataclass(frozen=True, slots=True)
class Source:
    """A model as the user named it; nothing has been opened yet."""

    kind: Kind
    name: str
    """The hub's id, the path as given, or the model type."""
    revision: str | None = None
    sizes: Mapping[str, Size] = field(default_factory=dict)
    """Of a random model: `layers`, `width`, `heads` … where they are not the defaults; a bare word is 1."""
    warnings: tuple[str, ...] = ()

    @property
    def path(self) -> Path:
        """Where a folder or file lies."""
        return Path(self.name).expanduser()


def parse(text: str) -> Source:
    """The one reading of SOURCE; what fits none is refused together with the grammar."""
    if text.startswith("random:"):
        return random_source(text)
    refuse_gguf(Path(text))
    if text.endswith(".safetensors"):
        return file_source(text)
    if LOCAL.match(text):
        return Source("folder", text)
    return hub_source(text)


def random_source(text: str) -> Source:
    """`random:ARCH?name=value&…`; whether there are such a type and sizes is for the one who builds it to say."""
    found = ARCHITECTURE.fullmatch(text.removeprefix("random:"))
    if found is None:
        raise UsageError(
            f"'{text}' names no model type: write random:bert or random:llama?layers=4."
        )
    sizes: dict[str, Size] = {}
    parts = [] if found["sizes"] is None else found["sizes"].split("&")
    for part in parts:
        size = SIZE.fullmatch(part)
        if size is None:
            raise UsageError(
                f"'{part}' in {text} is no size: write name=number, as in random:bert?layers=4&width=64."
            )
        if size["name"] in sizes:
            raise UsageError(f"{text} gives {size['name']} twice: leave one out.")
        sizes[size["name"]] = 1 if size["value"] is None else plain(size["value"])
    return Source("random", found["name"], sizes=sizes)


def plain(value: str) -> Size:
    """A number if it is one, else the word."""
    for kind in (int, float):
        try:
            return kind(value)
        except ValueError:
            continue
    return value


def file_source(text: str) -> Source:
    if not Path(text).expanduser().is_file():
        raise InputError(f"there is no file {text}: {GRAMMAR}.")
    return Source("file", text)


def hub_source(text: str) -> Source:
    """A hub id; a folder of the same name is not what is meant, and the report says so."""
    found = HUB_ID.fullmatch(text)
    if found is None or ".." in found["name"] or "--" in found["name"]:
        hint = f"for a folder ./{text}; else " if text and Path(text).exists() else ""
        raise UsageError(f"'{text}' names no model: {hint}{GRAMMAR}.")
    name = found["name"]
    shadow = (
        f"the folder {name} on this machine is not used, ./{name} would be: {name} is the hub's."
    )
    return Source("hub", name, found["revision"], warnings=(shadow,) if Path(name).is_dir() else ())
