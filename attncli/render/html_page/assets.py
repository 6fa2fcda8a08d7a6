"""The page's script and style: small files of `scripts/` and `styles/`, joined in their order, with their hashes."""

import base64
import functools
import hashlib
from importlib.resources import files
from typing import NamedTuple

SCRIPTS = (
    "unpack",
    "figures",
    "elements",
    "address",
    "scales",
    "tips",
    "cubes",
    "grid",
    "maps",
    "profile",
    "head",
    "curves",
    "boxes",
    "words",
    "panels",
    "table",
    "start",
)
STYLES = ("page", "grid", "curves", "table", "print")


class Asset(NamedTuple):
    """The content of a script or style tag, and the hash by which the page's policy allows it."""

    text: str
    csp_hash: str


@functools.cache
def load_script() -> Asset:
    return join_script_or_style_files("scripts", SCRIPTS, "js")


@functools.cache
def load_style() -> Asset:
    return join_script_or_style_files("styles", STYLES, "css")


def join_script_or_style_files(folder: str, names: tuple[str, ...], ending: str) -> Asset:
    room = files(__package__) / folder
    text = "\n" + "\n".join(
        (room / f"{name}.{ending}").read_text(encoding="utf-8") for name in names
    )
    digest = hashlib.sha256(text.encode()).digest()
    return Asset(text, f"'sha256-{base64.b64encode(digest).decode()}'")
