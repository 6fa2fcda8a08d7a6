"""Inputs of models that read text."""

from collections.abc import Mapping

import torch
from torch import Tensor
from transformers import PreTrainedConfig

from attncli.models.random.makers.drawing import Drawing, Maker


def input_ids(drawn: Drawing) -> Tensor:
    codebooks = drawn.size("num_codebooks", default=1)
    if drawn.kind in ("moshi_depth", "csm_depth_decoder_model"):
        return drawn.ids(vocabulary(drawn), 1, min(codebooks, drawn.tokens))
    if drawn.kind == "kyutai_speech_to_text":
        return drawn.ids(vocabulary(drawn), 1, drawn.tokens, codebooks + 1)
    if drawn.kind.startswith("musicgen"):
        return drawn.ids(vocabulary(drawn), codebooks, drawn.tokens)
    if drawn.kind == "dia_decoder":
        return drawn.ids(vocabulary(drawn), 1, drawn.tokens, drawn.size("num_channels"))
    return drawn.ids(vocabulary(drawn), 1, drawn.tokens)


def vocabulary(drawn: Drawing) -> int:
    """Rows of the embedding, which some configs do not name."""
    try:
        rows = getattr(drawn.model.get_input_embeddings(), "num_embeddings", None)
    except NotImplementedError:  # a model of several texts, or of none
        rows = None
    if not isinstance(rows, int):
        return drawn.size("vocab_size", default=256)
    return min(rows, drawn.size("vocab_size", default=rows))  # one table may hold several codebooks


def decoder_input_ids(drawn: Drawing) -> Tensor:
    for name in ("decoder", "decoder_config", "text_config"):
        nested = getattr(drawn.config, name, None)
        if isinstance(nested, PreTrainedConfig) and hasattr(nested, "vocab_size"):
            channels = getattr(nested, "num_channels", None)
            shape = (1, drawn.tokens, channels) if drawn.kind == "dia" else (1, drawn.tokens)
            return drawn.ids(nested.vocab_size, *shape)
    return drawn.ids(drawn.size("vocab_size"), 1, drawn.tokens)


def boxes(drawn: Drawing) -> Tensor:
    """[item, token, (left, top, right, bottom)], right of left and below top."""
    corners = torch.randint(0, 32, (1, drawn.tokens, 2), generator=drawn.generator)
    found = torch.cat([corners, corners + 8], dim=-1)
    return found.to(drawn.model.dtype) / 64 if drawn.kind == "bros" else found


TEXT: Mapping[str, Maker] = {
    "input_ids": input_ids,
    "decoder_input_ids": decoder_input_ids,
    "qformer_input_ids": lambda drawn: drawn.ids(64, 1, drawn.tokens),
    "task_inputs": lambda drawn: drawn.ids(64, 1, drawn.size("task_seq_len")),
    "bbox": boxes,
    "attention_mask": lambda drawn: torch.ones(1, drawn.tokens, dtype=torch.long),
}
