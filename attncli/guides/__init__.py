"""The guides: one Markdown file for each topic, read on the web and by `attn guide TOPIC`.

A file's name is its topic, its first heading its title. To add one, add a file: its console blocks are run by a test.
"""

from importlib.resources import files
from importlib.resources.abc import Traversable

from attncli.errors import unknown_name

ENDING = ".md"
HEADING = "# "


def guides() -> dict[str, Traversable]:
    """Every guide by its topic."""
    found = [each for each in files("attncli.guides").iterdir() if each.name.endswith(ENDING)]
    return {each.name.removesuffix(ENDING): each for each in sorted(found, key=lambda e: e.name)}


def guide_text(topic: str) -> str:
    """A guide's Markdown."""
    known = guides()
    if topic not in known:
        raise unknown_name("guide", topic, known)
    return known[topic].read_text(encoding="utf-8")


def titles() -> dict[str, str]:
    """What each guide is about: its first heading."""
    return {
        topic: guide.read_text(encoding="utf-8").partition("\n")[0].removeprefix(HEADING)
        for topic, guide in guides().items()
    }
