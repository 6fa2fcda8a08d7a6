"""SOURCE, MODEL and their kin on the command line: what a text names. One reading for every command.

nothing                                 the built-in synthetic network
org/name[@revision]                     a model of the hub, or of its cache; also a bare id such as bert-base-uncased
./dir  ../dir  /dir  ~/dir              a folder on this machine, always; or the file that lies there
random:ARCH[?layers=2&width=64&…]       any model type of transformers with seeded random weights
file.safetensors (.npz .json …)         one file; what it is, its content says: a network, maps, a fit, a report …

A command asks for the kind, and says what it can do with it (`require`); it never looks at the text itself.
"""

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args

from attncli.errors import InputError, UsageError
from attncli.io.file_kind_detection import FileKind, detect_file_kind

Kind = Literal["synthetic", "hub", "folder", "random", "live"] | FileKind

FILES: tuple[str, ...] = get_args(FileKind)
MODELS: tuple[Kind, ...] = ("hub", "folder", "random", "live")
ARRAYS: tuple[Kind, ...] = ("maps", "pattern", "weights", "pickle")
"""Files that may contain attention maps, whichever program has saved them."""
SAVED_MODELS: tuple[Kind, ...] = ("hub", "folder")

GRAMMAR = "write org/name[@revision], ./dir, random:ARCH[?layers=2&width=64], or the path of a .safetensors file"
LOCAL = re.compile(r"(~|/|\./|\.\./|\.\.?$)")
ENDINGS = (".safetensors", ".npy", ".npz", ".mtx", ".csv", ".json", ".jsonl", ".bin", ".pt", ".pth")
"""Endings of files that SOURCE may name without ./ before them: no model on the hub has such a name."""
GGUF = ".gguf"
NEAR = 0.75
"""How similar two names must be for one to be suggested for the other."""
WORD = r"[A-Za-z0-9_](?:[A-Za-z0-9_.-]*[A-Za-z0-9_])?"
HUB_ID = re.compile(rf"(?P<name>{WORD}(?:/{WORD})?)(?:@(?P<revision>[\w./-]+))?")
RANDOM = "random:"
TINY = ("tiny", 1)
"""The word that is no size, and has no value."""
ARCHITECTURE = re.compile(r"(?P<name>[A-Za-z0-9_.-]+)(?:\?(?P<sizes>.*))?")
SIZE = re.compile(r"(?P<name>[A-Za-z][A-Za-z0-9_.-]*)(?:=(?P<value>[A-Za-z0-9_.+-]{1,40}))?")

Size = str | int | float


OF_MODELS = "`inspect_model`, `rank_collapse` and `paths`"


class SourceKindDescription(NamedTuple):
    """A kind of source, for messages."""

    what: str
    """As the end of `… is …`."""
    readers: str = ""
    """Which commands read it."""


WORDS: Mapping[Kind, SourceKindDescription] = {
    "synthetic": SourceKindDescription("nothing (the built-in network)"),
    "hub": SourceKindDescription("a model of the hub", OF_MODELS),
    "folder": SourceKindDescription("a folder", OF_MODELS),
    "random": SourceKindDescription("a model with random weights", OF_MODELS),
    "live": SourceKindDescription("a live module", OF_MODELS),
    "network": SourceKindDescription("a network file", "`rank_collapse` and `paths`"),
    "maps": SourceKindDescription(
        "a file of attention maps", "`inspect_maps` and `approximate(pattern=FILE)`"
    ),
    "fit": SourceKindDescription("a fitted module", "`verify_fit`"),
    "pattern": SourceKindDescription(
        "a file of matrices", "`inspect_maps` and `approximate(pattern=FILE)`"
    ),
    "weights": SourceKindDescription("a safetensors file without maps, a network or a fit"),
    "report": SourceKindDescription("a saved report", "`check` and `compare`"),
    "pickle": SourceKindDescription("a pickle or archive"),
    "other": SourceKindDescription("a file of no kind that attn knows"),
}


@dataclass(frozen=True, slots=True)
class Source:
    """What the user named; nothing has been loaded yet."""

    kind: Kind
    name: str = ""
    """The hub's id, the path as given, or the model type."""
    revision: str | None = None
    sizes: Mapping[str, Size] = field(default_factory=dict)
    """Of a random model: `layers`, `width`, `heads` … where they are not the defaults; a bare word is 1."""
    warnings: tuple[str, ...] = ()
    live: Any = field(default=None, compare=False)
    """A module in the caller's process."""

    @property
    def path(self) -> Path:
        """The path of a folder or file."""
        return expand_home_folder(self.name)

    @property
    def is_model(self) -> bool:
        return self.kind in MODELS

    @property
    def is_file(self) -> bool:
        return self.kind in FILES

    def __str__(self) -> str:
        """The text of SOURCE."""
        if self.kind == "random":
            sizes = "&".join(
                name if (name, value) == TINY else f"{name}={value}"
                for name, value in self.sizes.items()
            )
            return f"{RANDOM}{self.name}{'?' if sizes else ''}{sizes}"
        return f"{self.name}@{self.revision}" if self.revision else self.name


def parse_source(text: "str | Source | None") -> Source:
    """Parse SOURCE; text that fits no form is refused together with the grammar."""
    if text is None:
        return Source("synthetic")
    if isinstance(text, Source):
        return text
    if text.startswith(RANDOM):
        return parse_random_model_text(text)
    if text.lower().endswith(GGUF):
        raise InputError(
            f"{text} is GGUF, llama.cpp's format, which is not read: give the safetensors checkpoint it was made from."
        )
    if text.lower().endswith(ENDINGS) or LOCAL.match(text):
        return parse_file_or_folder_path(text)
    return parse_hub_model_id(text)


def require_accepted_file_or_model(source: Source, kinds: Sequence[Kind], asker: str) -> None:
    """Require a kind: the refusal names the source's kind, the accepted kinds, and commands that read it."""
    if source.kind in kinds:
        return
    takes = f"{asker} takes {format_accepted_files_and_models(kinds)}"
    if source.kind == "synthetic":
        raise UsageError(f"there is no `source`: {takes}.")
    sentence = f"{source} is {WORDS[source.kind].what}: {takes}{suggest_command_for_file_or_model(source)}."
    raise (InputError if source.is_file else UsageError)(sentence)


def suggest_command_for_file_or_model(source: Source) -> str:
    """Advise which command reads a source that is of no use here."""
    if source.kind in ("weights", "pickle"):
        return (
            "; a model is the folder with its config.json, and `inspect_maps` reads attention maps"
        )
    if source.kind == "random":
        return "; it has no files to read weights from: save the model in a folder and give that"
    readers = WORDS[source.kind].readers
    return f"; {readers} read{'' if ' and ' in readers else 's'} it" if readers else ""


def format_accepted_files_and_models(kinds: Sequence[Kind]) -> str:
    """Format `a, b or c`; all ways to name a model are one."""
    model = "a model (org/name, ./dir or random:ARCH)"
    if "random" not in kinds:
        model = "a saved model (org/name or ./dir)"
    expected = {kind: WORDS[kind].what for kind in kinds}
    if set(ARRAYS) <= set(kinds):
        expected |= dict.fromkeys(
            ARRAYS, "a file of attention maps (.npz, .npy, .safetensors or .pt)"
        )
    *first, last = dict.fromkeys(
        model if kind in MODELS else what for kind, what in expected.items()
    )
    return f"{', '.join(first)} or {last}" if first else last


def parse_random_model_text(text: str) -> Source:
    """Parse `random:ARCH?name=value&…`; whether such a type and sizes exist is checked where it is built."""
    found = ARCHITECTURE.fullmatch(text.removeprefix(RANDOM))
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
        sizes[size["name"]] = 1 if size["value"] is None else parse_number_or_text(size["value"])
    return Source("random", found["name"], sizes=sizes)


def parse_number_or_text(value: str) -> Size:
    """A number if it is one, else the word."""
    for kind in (int, float):
        try:
            return kind(value)
        except ValueError:
            continue
    return value


def parse_file_or_folder_path(text: str) -> Source:
    """A file by its content; a folder, or what is not there, as a folder unless it is called like a file."""
    path = expand_home_folder(text)
    if path.is_file():
        return Source(detect_file_kind(path), text)
    if text.lower().endswith(ENDINGS) and not path.is_dir():
        raise InputError(f"there is no file {text}: {GRAMMAR}.")
    return Source("folder", text)


def expand_home_folder(text: str) -> Path:
    """A path as a shell reads it: ~ is a home at the beginning alone."""
    if not text.startswith("~"):
        return Path(text)
    try:
        return Path(text).expanduser()
    except RuntimeError:
        raise InputError(
            f"{text}: there is no such home: write ./{text} or the whole path."
        ) from None


def parse_hub_model_id(text: str) -> Source:
    """A hub id; a folder or file of the same name is not what is meant, and the report says so."""
    found = HUB_ID.fullmatch(text)
    if found is None or ".." in found["name"] or "--" in found["name"]:
        here = detect_file_or_folder(text)
        hint = f"for a {here} ./{text}; else " if here else ""
        raise UsageError(f"'{text}' names no model: {hint}{GRAMMAR}.")
    name = found["name"]
    here = detect_file_or_folder(name)
    shadow = (
        f"the {here} {name} on this machine is not used, ./{name} would be: {name} is the hub's."
    )
    return Source("hub", name, found["revision"], warnings=(shadow,) if here else ())


def detect_file_or_folder(text: str) -> str:
    """`folder` or `file`, where there is one of this name."""
    path = Path(text)
    return "folder" if text and path.is_dir() else "file" if path.is_file() else ""


def format_unambiguous_path(path: str) -> str:
    """A path on this disk as SOURCE is written: `runs/a` would be a name on the hub, `-x` an option."""
    if path.startswith(("./", "../", "/")):
        return path
    plain_file = (
        path[:1].isalnum() and path.lower().endswith(ENDINGS) and not path.startswith(RANDOM)
    )
    return path if plain_file else f"./{path}"


def find_similarly_named_folder(path: Path) -> str:
    """The folder beside it that is called almost so."""
    with suppress(OSError):
        names = [each.name for each in path.parent.iterdir() if each.is_dir()]
        near = get_close_matches(path.name, names, n=1, cutoff=NEAR)
        return format_unambiguous_path(str(path.with_name(near[0]))) if near else ""
    return ""
