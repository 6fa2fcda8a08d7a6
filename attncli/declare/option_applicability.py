"""Which options are valid together, and for which kinds of SOURCE: declared with the option itself.

    seeds: int | None = declare_option(applies=Applies(to=("synthetic",)), help="…")
    path: list[str] | None = declare_option(applies=Applies(excludes=("sample",)), help="…")

`refuse_or_drop_inapplicable_options` applies these rules to typed options and to settings; nothing
else checks options by their names.
"""

from dataclasses import dataclass
from typing import get_args

from attncli.io.file_kind_detection import FileKind
from attncli.model_and_file_sources import MODELS

WORDLESS = "wordless"
"""Kind of a folder whose model has no vocabulary: it reads images or sounds."""
ANY_MODEL: tuple[str, ...] = (*MODELS, WORDLESS)
SYNTHETIC = ("synthetic",)
NETWORKS = ("synthetic", "network")
EVERY: tuple[str, ...] = (*SYNTHETIC, *ANY_MODEL, *get_args(FileKind))
TYPED = ("command line", "python")
ANYWHERE = (*TYPED, "environment", "file")
"""Who may set an option."""


@dataclass(frozen=True, slots=True)
class Applies:
    """When an option means something. Options are named as in Python, `token_ids`; one with a value `metric:gates`."""

    to: tuple[str, ...] = EVERY
    """Kinds of SOURCE."""
    needs: tuple[str, ...] = ()
    """One of these must be set, of those that the command has."""
    excludes: tuple[str, ...] = ()
    """Options that must not be set at the same time; declared at one of the two."""
    only: tuple[str, ...] = ()
    """Values of the option to which the rule applies; empty: to all."""
    unless: tuple[str, ...] = ()
    """Values of the option to which the rule does not apply."""
    set_by: tuple[str, ...] = ANYWHERE
    """Who may set the option; `why` then says what it does, of which only they decide."""
    why: str = ""
    """The message, where the default one does not fit: {name} is the option, {value} its value,
    {setting} the one with the other, {other} and {other_setting} the one that it excludes, {source} what SOURCE names."""

    def applies_to_value(self, value: object) -> bool:
        named = not self.only or any(is_matching_option_value(value, text) for text in self.only)
        return named and not any(is_matching_option_value(value, text) for text in self.unless)


def is_matching_option_value(value: object, text: str) -> bool:
    """Whether the value equals the text, begins with it (`tokens=4:8` with `tokens`), or contains
    it."""
    if isinstance(value, list | tuple):
        return any(
            is_matching_option_value(part, text) for each in value for part in str(each).split(",")
        )
    words = str(value).strip()
    return words == text or words.startswith((f"{text}=", f"{text}:"))


def is_reference_to_option_value(reference: str, name: str, value: object) -> bool:
    """Whether `metric:gates` or `metric` means this option with this value."""
    option, _, text = reference.partition(":")
    return option == name and (not text or is_matching_option_value(value, text))
