"""What a text names as a pattern: a file, or a head of a model; and which weights of each row are kept.

`PATH`, `PATH:LAYER.HEAD` for a head of saved attention maps, `MODEL:LAYER.HEAD` for a head whose map a forward pass
gives. `:top=K` keeps the K largest weights of each row, `:above=T` those above T: maps of real heads are dense.
"""

import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy.sparse import coo_array, csr_array

from attncli.errors import UsageError
from attncli.registry import list_entry_names
from attncli.resource_limits import parse_whole_number

FILE_SPEC = re.compile(
    r"(?P<path>.+\.(?:npy|npz|mtx|csv|safetensors))"
    r"(?::(?P<layer>\d{1,9})\.(?P<head>\d{1,9}))?(?::(?:top=(?P<top>\d+)|above=(?P<above>[\d.eE+-]+)))?"
)
HEAD_SPEC = re.compile(r"(?P<model>.+?):(?P<layer>\d{1,9})\.(?P<head>\d{1,9})(?::(?P<keep>[^:]*))?")
RANDOM_MODEL = re.compile(r"random:[A-Za-z][\w-]*(\?.*)?")
"""`random` is a pattern too."""


def is_pattern_file(text: str) -> bool:
    """Whether the text names a file rather than a built-in pattern."""
    return FILE_SPEC.fullmatch(text) is not None


def path_in_pattern_text(text: str) -> Path:
    """The path in a text that names a file."""
    spec = FILE_SPEC.fullmatch(text)
    assert spec is not None
    return Path(spec["path"])


@dataclass(frozen=True, slots=True)
class ModelHead:
    """One head, and which weights of each row to keep."""

    text: str
    model: str
    layer: int
    head: int
    top: int | None
    above: float | None

    def keep_strongest_weights(self, rows: csr_array) -> csr_array:
        """Keep the largest weights of each row, or those above the threshold."""
        if self.top is not None:
            return keep_strongest_weights(rows, self.top)
        assert self.above is not None
        return keep_weights_above_threshold(rows, self.above)


def parse_attention_head_of_model(text: str) -> ModelHead | None:
    """Parse the head that the text names; None if it names a file or a built-in pattern."""
    found = HEAD_SPEC.fullmatch(text)
    if found is None or is_pattern_file(text):
        return None
    model = found["model"]
    if model.partition(":")[0] in list_entry_names(
        "attncli.patterns"
    ) and not RANDOM_MODEL.fullmatch(model):
        return None
    top, above = parse_keep_rule(text, found["keep"] or "")
    return ModelHead(text, model, int(found["layer"]), int(found["head"]), top, above)


def parse_keep_rule(text: str, keep: str) -> tuple[int | None, float | None]:
    """Parse `top=4` or `above=0.05`; one is required, as a map has weights everywhere."""
    name, _, value = keep.partition("=")
    if name == "top" and (count := parse_whole_number(value)):
        return count, None
    if name == "above":
        return None, parse_weight_threshold(text, value)
    raise UsageError(
        f"pattern '{text}': say which weights of each row to keep, by :top=4 (at least 1) or :above=0.05 after the head."
    )


def parse_top_key_count(text: str, number: str) -> int:
    count = parse_whole_number(number)
    if not count:
        raise UsageError(f"'{text}': top must be a whole number from 1 on, not '{number}'.")
    return count


def parse_weight_threshold(text: str, number: str) -> float:
    try:
        return float(number)
    except ValueError:
        raise UsageError(f"'{text}': above must be a number, not '{number}'.") from None


def keep_strongest_weights(pattern: csr_array, count: int) -> csr_array:
    """Keep the `count` largest weights of each row."""
    rows = np.repeat(np.arange(pattern.shape[0]), np.diff(pattern.indptr))
    order = np.lexsort((-pattern.data, rows))
    rank = np.arange(len(order)) - pattern.indptr[rows[order]]
    strongest = order[rank < count]
    return csr_array(
        coo_array(
            (pattern.data[strongest], (rows[strongest], pattern.indices[strongest])), pattern.shape
        )
    )


def keep_weights_above_threshold(pattern: csr_array, limit: float) -> csr_array:
    """Keep the weights above a limit."""
    pairs = pattern.tocoo()
    strongest = pairs.data > limit
    return csr_array(
        coo_array(
            (pairs.data[strongest], (pairs.row[strongest], pairs.col[strongest])), pattern.shape
        )
    )
