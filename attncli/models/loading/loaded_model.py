"""A model that is ready to run, with its description for the report."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from transformers import PreTrainedModel, PreTrainedTokenizerBase

from attncli.models.loading.base_model import remove_model_head
from attncli.records import Facts


@dataclass(frozen=True, slots=True)
class LoadedModel:
    """A model that is ready to run, with its description for the report."""

    model: PreTrainedModel
    """In evaluation mode, without gradients and cache."""
    identity: Facts
    folder: Path | None
    """The folder of tokenizer files; None for a random model."""
    warnings: tuple[str, ...] = ()
    tokenizer: PreTrainedTokenizerBase | None = None
    """The tokenizer of an in-memory model."""
    user_inputs: Any = None
    """The inputs given with an in-memory model."""
    read_ahead: Any = None
    """Texts that were read and checked before the weights."""

    @property
    def reads_texts(self) -> bool:
        """Whether it has a tokenizer, or a folder that should hold one."""
        return self.folder is not None or self.tokenizer is not None

    @property
    def body(self) -> PreTrainedModel:
        """The model without its head: what is run, so that no logits over the vocabulary are made."""
        return remove_model_head(self.model)


Ahead = Callable[[LoadedModel], Any]
"""A check on the model without memory: refuses what it can before weights are read, and returns what it has read."""
