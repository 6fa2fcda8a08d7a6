"""README and the guides as tests read them: tables, and commands with the output that is shown below them."""

import re
from pathlib import Path

import attncli

PACKAGE = Path(attncli.__file__).parent
README = PACKAGE.parent / "README.md"
GUIDES = sorted((PACKAGE / "guides").glob("*.md"))
DOCUMENTS = [README, *GUIDES]

Command = tuple[str, str]
"""What is typed, and what is shown below it."""


def table(path: Path, title: str) -> dict[str, list[str]]:
    """The rows of the table under a heading by their first cell; the other cells as they are written."""
    section = path.read_text().partition(f"# {title}\n")[2].partition("\n#")[0]
    rows = re.findall(r"^\| `([^`]+)` \| (.+) \|$", section, re.MULTILINE)
    return {name: re.split(r"(?<!\\) \| ", rest) for name, rest in rows}


def shown(text: str) -> list[Command]:
    """Every command of the console blocks."""
    found = []
    for block in re.findall(r"^```console\n(.*?)^```", text, re.DOTALL | re.MULTILINE):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, _, output = part.partition("\n")
            found.append((command, output))
    return found


def sections(path: Path) -> dict[str, list[Command]]:
    """Commands by the heading that they stand under; those of one heading go together."""
    parts = re.split(r"^## ", path.read_text(), flags=re.MULTILINE)
    return {part.partition("\n")[0]: shown(part) for part in parts if shown(part)}


def contains(lines: list[str], wanted: list[str]) -> bool:
    size = len(wanted)
    return any(lines[start : start + size] == wanted for start in range(len(lines) - size + 1))


def shows(printed: str, wanted: str) -> bool:
    """Word for word, piece by piece; `…` on a line of its own stands for lines left out."""
    lines = [line.rstrip() for line in printed.splitlines()]
    pieces = re.split(r"^…$", wanted, flags=re.MULTILINE)
    return all(
        contains(lines, [line.rstrip() for line in piece.strip("\n").splitlines()])
        for piece in pieces
    )
