"""Choose the part of a model that is run."""

from typing import cast

from transformers import PreTrainedModel
from transformers.models.auto.modeling_auto import MODEL_MAPPING_NAMES

from attncli.capture.model_structure.custom_modules import ForeignModule


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
