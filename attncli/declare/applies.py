"""Which options mean something together, and for which kinds of SOURCE: declared beside the option itself.

    seeds: Annotated[int | None, Option(applies=Applies(to=("synthetic",)), help="…")] = None
    path:  Annotated[list[str] | None, Option(applies=Applies(excludes=("sample",)), help="…")] = None

`settle` judges by it what somebody has typed and what a file sets; nothing else keeps options apart by their names.
"""

from dataclasses import dataclass
from typing import Any, get_args

from attncli.io.file_kinds import FileKind
from attncli.sources import MODELS

WORDLESS = "wordless"
"""A folder whose model has no vocabulary: it reads images or sounds."""
ANY_MODEL: tuple[str, ...] = (*MODELS, WORDLESS)
SYNTHETIC = ("synthetic",)
NETWORKS = ("synthetic", "network")
EVERY: tuple[str, ...] = (*SYNTHETIC, *ANY_MODEL, *get_args(FileKind))


@dataclass(frozen=True, slots=True)
class Applies:
    """When an option means something. Options are named as in Python, `token_ids`; one with a value `metric:gates`."""

    to: tuple[str, ...] = EVERY
    """Kinds of SOURCE."""
    needs: tuple[str, ...] = ()
    """One of these must be set, of those that the command has."""
    excludes: tuple[str, ...] = ()
    """None of these may be set; it is written at one of the two."""
    only: tuple[str, ...] = ()
    """Values of the option itself for which this holds; none: for all."""
    unless: tuple[str, ...] = ()
    """Values of the option itself of which nothing of this holds."""
    why: str = ""
    """The sentence, where the usual one would not do: {name} is the option, {setting} the same with its value, {other} the
    option that it excludes, {source} what SOURCE names."""

    def concerns(self, value: Any) -> bool:
        named = not self.only or any(is_value(value, text) for text in self.only)
        return named and not any(is_value(value, text) for text in self.unless)


def is_value(value: Any, text: str) -> bool:
    """Whether it is, begins with (`tokens=4:8` with `tokens`, `sinkhorn:5` with `sinkhorn`) or holds what the text says."""
    if isinstance(value, list | tuple):
        return any(is_value(part, text) for each in value for part in str(each).split(","))
    said = str(value).strip()
    return said == text or said.startswith((f"{text}=", f"{text}:"))


def names_it(reference: str, name: str, value: Any) -> bool:
    """Whether `metric:gates` or `metric` means this option with this value."""
    option, _, text = reference.partition(":")
    return option == name and (not text or is_value(value, text))
