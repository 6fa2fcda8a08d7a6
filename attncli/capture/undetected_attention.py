"""Explain why a forward pass showed no attention."""

import sys
from pathlib import Path
from types import FrameType

import torch
from torch import nn

from attncli.capture.model_structure.modules_outside_transformers import ForeignModule
from attncli.forward_argument_types import Inputs

FLEX = "flex_attention"
"""The torch function, and its file."""


def explain_uncaptured_attention(model: nn.Module, inputs: Inputs) -> str:
    """Explain unseen attention by one more forward pass: flex_attention computes no weights that could be captured."""
    module = model.model if isinstance(model, ForeignModule) else model
    name = type(module).__name__
    if calls_flex_attention(model, inputs):
        return (
            f"{name} attends by torch's flex_attention, which hands out no weights: call scaled_dot_product_attention, or "
            "write the softmax out, while it is measured."
        )
    return (
        f"no attention was seen in the forward of {name}: neither a softmax that weighs values, nor torch's "
        "scaled_dot_product_attention or MultiheadAttention."
    )


def calls_flex_attention(model: nn.Module, inputs: Inputs) -> bool:
    """Detect flex_attention by Python's profiler: models import the function by name, so that it cannot be patched."""
    found = []

    def record_flex_call(frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        if code.co_name == FLEX and Path(code.co_filename).stem == FLEX:
            found.append(event)

    before = sys.getprofile()
    sys.setprofile(record_flex_call)
    try:
        with torch.no_grad():
            model(**inputs)
    finally:
        sys.setprofile(before)
    return bool(found)
