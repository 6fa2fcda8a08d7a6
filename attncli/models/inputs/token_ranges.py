"""Which token ids a model knows, and how many positions it has."""

from torch import nn
from transformers import PreTrainedModel

from attncli.models.text_configs import text_config

POSITIONS = (
    "max_position_embeddings",
    "max_encoder_position_embeddings",
    "max_decoder_position_embeddings",
)
"""What configs call it; relative positions such as T5's have no such limit and no such name."""


def vocabulary(model: PreTrainedModel) -> int:
    """Rows of the table of words, which is what an id must stay below, whatever the config says."""
    table: nn.Module = model.get_input_embeddings()
    return len(table.get_parameter("weight"))


def longest(model: PreTrainedModel) -> int | None:
    """Tokens that the model has positions for; None where nothing limits them."""
    config = text_config(model.config)
    found = [getattr(config, name, None) for name in POSITIONS]
    found += [usable_rows(name, module) for name, module in model.named_modules()]
    limits = [limit for limit in found if isinstance(limit, int) and limit > 0]
    return min(limits, default=None)


def usable_rows(name: str, module: nn.Module) -> int | None:
    """RoBERTa's positions begin behind the padding's row: two of its 514 rows are never used.

    DETR's `query_position_embeddings` are its queries, and no positions of what it reads.
    """
    if name.rpartition(".")[2].startswith("query"):
        return None
    if not name.endswith("position_embeddings") or not isinstance(module, nn.Embedding):
        return None
    behind = 0 if module.padding_idx is None else module.padding_idx + 1
    return module.num_embeddings - behind
