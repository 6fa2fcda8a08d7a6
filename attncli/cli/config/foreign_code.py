"""Switches that run code which a checkpoint brings: they count on the command line alone.

Whoever types them has decided it. A configuration file comes with the folder that one works in, such as a repository
that was just cloned, and the environment may come with it too; neither may decide it for the user.
"""

import shlex
from collections.abc import Iterable, Iterator
from typing import Any

from attncli.errors import UsageError

SWITCHES = ("allow-pickle", "trust-remote-code")
"""Options of commands that run models; a pickle runs whatever it likes when it is read."""


def refuse_setting(option: str, value: Any, where: str) -> None:
    """An option that is set elsewhere, or one whose value is a command line."""
    texts = value if isinstance(value, list) else [value]
    refuse([option, *(text for text in texts if isinstance(text, str))], where)


def refuse(words: Iterable[str], where: str, advice: str = "give it there") -> None:
    """Words from anywhere but the command line."""
    for text in words:
        for word in all_words(text):
            name = word.partition("=")[0].removeprefix("--")
            if name in SWITCHES and word.startswith("--"):
                raise UsageError(
                    f"{where}: --{name} lets a checkpoint run code, so it counts on the command line alone: {advice}."
                )


def all_words(text: str) -> Iterator[str]:
    """The text, its words as a shell splits them, and theirs: a command line may stand inside another."""
    yield text
    try:
        words = shlex.split(text)
    except ValueError:
        return
    for word in words:
        if word != text:
            yield from all_words(word)
