"""ELECTRA: BERT with embeddings of another width, projected where the widths differ."""

from typing import Any

import numpy as np

from .bert import embedded, encode
from .common import EVERYTHING, Array, Run, linear, only, weights


def forward(model: Any, inputs: Any, switches: Any) -> dict[str, list[Array]]:
    return run(model, inputs, switches).states


def attention_maps(model: Any, inputs: Any) -> dict[str, list[Array]]:
    return run(model, inputs, EVERYTHING).maps


def run(model: Any, inputs: Any, switches: Any) -> Run:
    w = weights(model)
    ids, types = only(inputs, "input_ids", "token_type_ids")
    x = embedded(ids, types, np.arange(len(ids)), w, model.config)
    if model.config.embedding_size != model.config.hidden_size:
        x = linear(x, w, "embeddings_project")
    return encode(x, w, model, switches)
