"""RoBERTa: BERT whose positions start after the padding index and count only tokens that are not padding."""

from typing import Any

import numpy as np

from .bert import embedded, encode
from .common import EVERYTHING, Array, Run, only, weights


def forward(model: Any, inputs: Any, switches: Any) -> dict[str, list[Array]]:
    return run(model, inputs, switches).states


def attention_maps(model: Any, inputs: Any) -> dict[str, list[Array]]:
    return run(model, inputs, EVERYTHING).maps


def run(model: Any, inputs: Any, switches: Any) -> Run:
    w = weights(model)
    ids, types = only(inputs, "input_ids", "token_type_ids")
    padding = model.config.pad_token_id
    real = ids != padding
    positions = np.cumsum(real) * real + padding
    return encode(embedded(ids, types, positions, w, model.config), w, model, switches)
