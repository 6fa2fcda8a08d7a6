"""Described bytes as one compressed text: a length, a JSON header, the bytes."""

import base64
import gzip
import json
from collections.abc import Iterable
from typing import Any

from attncli.records import Facts, JsonObject
from attncli.render.html_page.columns_as_bytes import EncodedColumn
from attncli.sanitize import sanitize_value


class ColumnStore:
    """Concatenates bytes and returns their offsets."""

    def __init__(self) -> None:
        self.parts: list[bytes] = []
        self.size = 0

    def append_encoded_column(self, packed: EncodedColumn) -> dict[str, Any]:
        """Append a column; return its description with its offset."""
        described = {**packed.description, "from": self.size}
        self.parts.append(packed.data)
        self.size += len(packed.data)
        return described

    def append_encoded_columns(self, columns: Iterable[EncodedColumn]) -> list[JsonObject]:
        return [self.append_encoded_column(packed) for packed in columns]

    def encode_as_compressed_text(self, header: Facts) -> str:
        """All of it, with every text in the header made visible; the same content gives the same
        text, as no date is inside."""
        head = json.dumps(sanitize_value(header), separators=(",", ":"), allow_nan=False).encode()
        whole = b"".join([len(head).to_bytes(4, "little"), head, *self.parts])
        return base64.b64encode(gzip.compress(whole, mtime=0)).decode()
