"""A head of a model as a pattern, by text: `MODEL:LAYER.HEAD:top=K` or `MODEL:LAYER.HEAD:above=T`.

Other packages run the forward pass that gives the map; this file parses the text and selects weights.
"""

import re
from dataclasses import dataclass

from scipy.sparse import csr_array

from attncli.errors import UsageError
from attncli.patterns import PATTERNS
from attncli.patterns._pattern_files import (
    is_pattern_file,
    keep_strongest_weights,
    keep_weights_above,
    parse_threshold,
)
from attncli.resource_limits import parse_whole_number

SPEC = re.compile(r"(?P<model>.+?):(?P<layer>\d{1,9})\.(?P<head>\d{1,9})(?::(?P<keep>[^:]*))?")
RANDOM_MODEL = re.compile(r"random:[A-Za-z][\w-]*(\?.*)?")
"""`random` is a pattern too."""


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
        return keep_weights_above(rows, self.above)


def parse_model_head(text: str) -> ModelHead | None:
    """Parse the head that the text names; None if it names a file or a built-in pattern."""
    found = SPEC.fullmatch(text)
    if found is None or is_pattern_file(text):
        return None
    model = found["model"]
    if model.partition(":")[0] in PATTERNS.names() and not RANDOM_MODEL.fullmatch(model):
        return None
    top, above = parse_keep_rule(text, found["keep"] or "")
    return ModelHead(text, model, int(found["layer"]), int(found["head"]), top, above)


def parse_keep_rule(text: str, keep: str) -> tuple[int | None, float | None]:
    """Parse `top=4` or `above=0.05`; one is required, as a map has weights everywhere."""
    name, _, value = keep.partition("=")
    if name == "top" and (count := parse_whole_number(value)):
        return count, None
    if name == "above":
        return None, parse_threshold(text, value)
    raise UsageError(
        f"pattern '{text}': say which weights of each row to keep, by :top=4 (at least 1) or :above=0.05 after the head."
    )
