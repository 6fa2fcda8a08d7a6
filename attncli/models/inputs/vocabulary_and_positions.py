"""The token ids that a model knows, and its number of positions."""

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from attncli.errors import InputError
from attncli.models.layer_sizes_from_config import select_text_config

POSITIONS = (
    "max_position_embeddings",
    "max_encoder_position_embeddings",
    "max_decoder_position_embeddings",
)
"""Config names of the number of positions; relative positions such as T5's have no such limit."""


def find_vocabulary_size(model: PreTrainedModel) -> int | None:
    """Rows of the embedding table: an id must be smaller, whatever the config says.

    Without a table, or with one for each part, the config's number; None where it has none.
    """
    table = find_word_embedding_weight(model)
    if table is not None:
        return len(table)
    size = getattr(select_text_config(model.config), "vocab_size", None)
    return size if isinstance(size, int) and size > 0 else None


def find_word_embedding_weight(model: PreTrainedModel) -> Tensor | None:
    """[id, feature], where transformers knows the embedding."""
    try:
        found = model.get_input_embeddings()
    except (NotImplementedError, AttributeError):  # transformers' error for a class without a rule
        return None
    rows = getattr(found, "weight", None)
    return rows if isinstance(rows, Tensor) and rows.dim() == 2 else None


def list_non_special_token_ids(model: PreTrainedModel) -> Tensor:
    """Ids of ordinary tokens, none special; empty where the vocabulary is unknown."""
    return torch.tensor(
        sorted(set(range(find_vocabulary_size(model) or 0)) - list_special_token_ids(model)),
        dtype=torch.long,
    )


def list_special_token_ids(model: PreTrainedModel) -> set[int]:
    """Ids with a special meaning in the config, such as the end of a text."""
    config = select_text_config(model.config).to_dict()
    return {
        value
        for name, value in config.items()
        if name.endswith("_token_id") and isinstance(value, int)
    }


def find_max_positions(model: PreTrainedModel) -> int | None:
    """The number of positions; None where nothing limits it."""
    config = select_text_config(model.config)
    found = [getattr(config, name, None) for name in POSITIONS]
    found += [count_usable_positions(name, module) for name, module in model.named_modules()]
    limits = [limit for limit in found if isinstance(limit, int) and limit > 0]
    return min(limits, default=None)


def count_usable_positions(name: str, module: nn.Module) -> int | None:
    """The number of usable positions: RoBERTa's begin behind the padding row, so two of its 514 are never used.

    DETR's `query_position_embeddings` are its queries, and no positions of what it reads.
    """
    if name.rpartition(".")[2].startswith("query"):
        return None
    if not name.endswith("position_embeddings") or not isinstance(module, nn.Embedding):
        return None
    behind = 0 if module.padding_idx is None else module.padding_idx + 1
    return module.num_embeddings - behind


def refuse_too_long_text(model: PreTrainedModel, name: str, length: int) -> None:
    most = find_max_positions(model)
    if most is not None and length > most:
        raise InputError(
            f"{name} has {length} tokens, {type(model).__name__} has positions for {most}: cut it with `tokens={most!r}`."
        )
