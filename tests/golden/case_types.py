"""What a case of the golden list is made of; nothing here knows attncli."""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass

from golden.spelling import call_today, words_of_design

SPELLINGS = ("old", "new")


@dataclass(frozen=True)
class Command:
    """A command line without its `attn`; what follows `<` is the file that stdin reads.

    `new` is its spelling in the design where the rules of `spelling.py` do not give it.
    """

    line: str
    new: str | None = None

    def words(self, spelling: str) -> list[str]:
        if spelling == "new":
            return shlex.split(self.new) if self.new else words_of_design(shlex.split(self.line))
        return shlex.split(self.line)

    def spelt(self, spelling: str) -> str:
        return shlex.join(self.words(spelling))


@dataclass(frozen=True)
class Call:
    """A Python expression; it sees `attn`, `np`, `torch`, `hf` and all of `objects.py`."""

    expression: str
    new: str | None = None

    def spelt(self, spelling: str) -> str:
        if spelling == "new":
            return self.new or call_today(self.expression)
        return self.expression


@dataclass(frozen=True)
class Write:
    """A text file that the next steps read."""

    name: str
    text: str
    new: str | None = None

    def spelt(self, spelling: str) -> str:
        return self.new if spelling == "new" and self.new is not None else self.text


Step = Command | Call | Write


@dataclass(frozen=True)
class Case:
    """Steps in a folder of their own, which holds copies of the `material.py` that the steps name."""

    name: str
    steps: tuple[Step, ...]
    environment: tuple[tuple[str, str], ...] = ()
    files: tuple[str, ...] = ()
    """Of the material, what no step names in full."""

    def respelt(self) -> bool:
        """Whether the design spells it in another way."""
        return any(step.spelt("old") != step.spelt("new") for step in self.steps)

    def text(self) -> str:
        """All that may name a file."""
        return " ".join([*self.files, *(step.spelt("old") for step in self.steps)])


def measured(name: str, line: str, new: str | None = None) -> Case:
    """A report as JSON, and its tables."""
    asked = Command(f"{line} -o r.json", f"{new} -o r.json" if new else None)
    return Case(name, (asked, Command("check r.json")))


def run(name: str, *lines: str, files: Sequence[str] = ()) -> Case:
    """Command lines one after the other."""
    return Case(name, tuple(map(Command, lines)), files=tuple(files))


def called(name: str, expression: str, new: str | None = None) -> Case:
    return Case(name, (Call(expression, new),))


def refused(line: str, new: str | None = None) -> Case:
    return Case(f"refused: {line}", (Command(line, new),))
