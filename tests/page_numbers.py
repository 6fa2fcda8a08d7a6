"""An independent reader of pages: their elements, and the numbers that travel in them."""

import base64
import gzip
import json
import math
import struct
from html.parser import HTMLParser
from typing import Any


class Elements(HTMLParser):
    """Every element with its attributes; scripts and styles with their text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.open = False
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))
        self.texts.append("")
        self.open = True

    def handle_endtag(self, tag: str) -> None:
        self.open = False

    def handle_data(self, data: str) -> None:
        if self.open:
            self.texts[-1] += data

    def of(self, tag: str) -> list[tuple[dict[str, str | None], str]]:
        pairs = zip(self.found, self.texts, strict=True)
        return [(given, text) for (name, given), text in pairs if name == tag]


class Numbers:
    """An independent reader of the numbers in a page."""

    def __init__(self, page: str) -> None:
        (text,) = [text for given, text in Elements(page).of("script") if given.get("id") == "numbers"]  # fmt: skip
        whole = gzip.decompress(base64.b64decode(text))
        (size,) = struct.unpack_from("<I", whole)
        self.header = json.loads(whole[4 : 4 + size])
        self.body = whole[4 + size :]

    def column(self, name: str) -> list[Any]:
        column = next((one for one in self.header["columns"] if one["name"] == name), None)
        count = self.header["count"]
        if column is None:
            return [None] * count
        width, start = column["width"], column["from"]
        data = [
            bytes(self.body[start + place * count + row] for place in range(width))
            for row in range(count)
        ]
        if column["kind"] == "codes":
            return [column["values"][int.from_bytes(each, "little")] for each in data]
        kind = "<d" if width == 8 else "<f"
        found = [None if math.isnan(x) else x for (x,) in (struct.unpack(kind, d) for d in data)]
        for row, value in column.get("exact", []):
            found[row] = value
        return found
