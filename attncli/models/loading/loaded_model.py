"""A model that is ready to run, the part of it that is run, and its description for the report."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from transformers import PreTrainedModel, PreTrainedTokenizerBase
from transformers.models.auto.modeling_auto import MODEL_MAPPING_NAMES

from attncli.capture.model_structure.modules_outside_transformers import ForeignModule
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
    def can_read_texts(self) -> bool:
        """Whether it has a tokenizer, or a folder that should hold one."""
        return self.folder is not None or self.tokenizer is not None

    @property
    def model_without_head(self) -> PreTrainedModel:
        """The model without its head: what is run, so that no logits over the vocabulary are made."""
        return remove_model_head(self.model)


Ahead = Callable[[LoadedModel], Any]
"""A check on the model without memory: refuses what it can before weights are read, and returns what it has read."""


def remove_model_head(model: PreTrainedModel) -> PreTrainedModel:
    """The model without its head, so that no logits over the vocabulary are made.

    The class that transformers has for the type itself, and not For a task, is no head even where it calls its encoder
    its base (DINOv3): running that alone would leave out embeddings and positions.
    """
    if isinstance(model, ForeignModule):  # a module not from transformers: run as it is
        return model
    bare, name = MODEL_MAPPING_NAMES.get(model.config.model_type, ()), type(model).__name__
    headless = name in ((bare,) if isinstance(bare, str) else bare) and "For" not in name
    return model if headless else cast(PreTrainedModel, model.base_model)
