"""What a case left on disk: reports and texts as they are, tensors and pages by their numbers, pictures as being there."""

import hashlib
import json
import re
from pathlib import Path
from typing import Any

import numpy as np

TEXTS = (".csv", ".md", ".txt", ".jsonl", ".xml", ".toml", ".tsv", "")
PICTURES = (".png", ".svg", ".pdf")
DIGEST = re.compile(r"[0-9a-f]{8,64}")


def files_left(folder: Path, given: set[str]) -> dict[str, Any]:
    """By name, where a digest stands for itself; the material that the case was given is left out where it is unchanged."""
    found: dict[str, Any] = {}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder)
        if path.is_file() and name.parts[0] not in given:
            found[unique(DIGEST.sub("{digest}", str(name)), found)] = content(path)
    return found


def unique(name: str, known: dict[str, Any]) -> str:
    return name if name not in known else unique(f"{name}'", known)


def content(path: Path) -> Any:
    data = path.read_bytes()
    if path.suffix in PICTURES:
        return {"picture": len(data) > 1000}
    try:
        if path.suffix == ".json":
            return {"json": json.loads(data)}
        if path.suffix == ".safetensors":
            return tensors(data)
        if path.suffix == ".html":
            return page(data.decode())
        if path.suffix in TEXTS:
            return {"text": data.decode()}
    except ValueError as error:
        return {"unreadable": str(error), "sha256": digest(data)}
    return {"sha256": digest(data)}


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def tensors(data: bytes) -> Any:
    """Each tensor by its type, shape and hash; the order in the file does not count."""
    size = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + size])
    body = data[8 + size :]
    metadata = header.pop("__metadata__", {})
    held = {name: [one["dtype"], one["shape"], digest(body[slice(*one["data_offsets"])])] for name, one in header.items()}  # fmt: skip
    return {"metadata": {name: parsed(text) for name, text in metadata.items()}, "tensors": held}


def parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def page(text: str) -> Any:
    """The numbers that travel in a page, and the words of its body."""
    from page_numbers import Elements, Numbers

    numbers = Numbers(text)
    columns = {one["name"]: numbers.column(one["name"]) for one in numbers.header["columns"]}
    skipped = ("script", "style", "title", "code")
    elements = Elements(text)
    words = [
        said.strip()
        for (tag, _), said in zip(elements.found, elements.texts, strict=True)
        if tag not in skipped
    ]
    words = [
        said for said in words if said and not said.startswith("attn ")
    ]  # its own command line
    return {"columns": json.loads(json.dumps(columns, default=np_value)), "words": words}


def np_value(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else str(value)
