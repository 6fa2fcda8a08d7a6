"""The guides: one Markdown file for each topic, read on the web and by `attn guide TOPIC`.

A file's name is its topic, and its first heading its title. Its line "For `attn COMMAND`." says which commands' help names
it. To add one, add a file; a test runs its console blocks.

    >>> from attncli.guides import read_guide_titles
    >>> read_guide_titles()["gates"]
    'Gates: conditions that fail a build, and exit codes'
"""

import re
import textwrap
from collections.abc import Iterator
from importlib.resources import files
from importlib.resources.abc import Traversable

from attncli.errors import require_known_names

ENDING = ".md"
HEADING = "# "
FOR = re.compile(r"^For (`attn .+`)\.$", re.MULTILINE)
"""The line that says which commands a guide is for."""
COMMAND = re.compile(r"`(attn [^`]+)`")


def find_guides() -> dict[str, Traversable]:
    """Every guide by its topic."""
    found = [each for each in files("attncli.guides").iterdir() if each.name.endswith(ENDING)]
    return {each.name.removesuffix(ENDING): each for each in sorted(found, key=lambda e: e.name)}


def read_guide_text(topic: str) -> str:
    """A guide's Markdown."""
    known = find_guides()
    require_known_names("guide", [topic], known)
    return known[topic].read_text(encoding="utf-8")


def read_guide_titles() -> dict[str, str]:
    """What each guide is about: its first heading."""
    return {
        topic: guide.read_text(encoding="utf-8").partition("\n")[0].removeprefix(HEADING)
        for topic, guide in find_guides().items()
    }


def list_guides_of_command(command: str) -> list[str]:
    """Topics of the guides that are for a command, such as `attn paths`, or for its group; the one that is called so first."""
    found = [
        topic
        for topic, guide in find_guides().items()
        if any(
            f"{command} ".startswith(f"{named} ")
            for named in list_commands_of_guide(guide.read_text(encoding="utf-8"))
        )
    ]
    return sorted(found, key=lambda topic: f"attn {topic}" != command)


def list_commands_of_guide(guide: str) -> list[str]:
    """What a guide is for."""
    return [command for line in FOR.findall(guide) for command in COMMAND.findall(line)]


def format_guide_list(titles: dict[str, str], width: int) -> Iterator[str]:
    """One line for each guide; a long title goes on below itself."""
    indent = max(map(len, titles)) + 4
    for topic, title in titles.items():
        first, *rest = textwrap.wrap(title, max(width - indent, 20))
        yield f"  {topic:<{indent - 2}}{first}"
        yield from (" " * indent + line for line in rest)
