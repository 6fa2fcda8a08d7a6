"""Numbers on a device without float64 are added up on the CPU."""

from typing import Any

import pytest
import torch
from one_pass import one_pass
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from attncli.analysis.heads.forward_passes.head_observer import (
    HeadObserver,
    PassRequest,
    ignore_progress_share,
    observe_forward_pass,
)
from attncli.analysis.heads.forward_passes.text_batches import BatchObserver
from attncli.analysis.heads.forward_passes.uniform_attention_control import UniformAttentionControl
from attncli.analysis.heads.metric_selection import list_state_metrics
from attncli.capture.model_structure.blocks import find_block_stacks
from attncli.capture.reruns import seed_and_precision
from attncli.metrics.attention import ATTENTION
from attncli.models.random.dummy_inputs import make_example_inputs
from attncli.models.random.random_models import build_model


class DeviceWithoutFloat64(TorchDispatchMode):
    """Stands in for mps: refuses float64 of what is computed from these tensors, until it is moved to the CPU."""

    def __init__(self, tensors: list[torch.Tensor]) -> None:
        super().__init__()
        self.on_device = {id(each): each for each in tensors}
        self.moving = False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        found = func(*args, **(kwargs or {}))
        here = any(id(each) in self.on_device for each in tree_leaves((args, kwargs)))
        if here and not self.moving:
            for each in tree_leaves(found):
                if isinstance(each, torch.Tensor):
                    assert each.dtype != torch.float64, func
                    self.on_device[id(each)] = each
        return found

    def move(self, tensor: torch.Tensor) -> torch.Tensor:
        if id(tensor) not in self.on_device:
            return tensor
        self.moving = True
        try:
            return tensor.clone()
        finally:
            self.moving = False


def test_every_metric_adds_up_where_there_is_float64(monkeypatch: pytest.MonkeyPatch) -> None:
    """The device refuses float64 while the metrics are computed from the tensors that are on it."""
    model = build_model("diffllama", {"tiny": 1, "layers": 1}, 0).eval()
    inputs = make_example_inputs(model, 8)
    device = DeviceWithoutFloat64([*model.parameters(), *model.buffers(), *inputs.values()])
    monkeypatch.setattr(torch.Tensor, "cpu", lambda tensor: device.move(tensor))
    monkeypatch.setattr(seed_and_precision, "WITHOUT_FLOAT64", {"cpu"})
    states = tuple(name for name in list_state_metrics() if name != "log10_residual_optimal")
    request = PassRequest(tuple(ATTENTION.names()), states, ids=inputs["input_ids"][0], pairs=2)
    common = (request, UniformAttentionControl(), "a text")
    observers = (
        HeadObserver(*common, ignore_progress_share),
        BatchObserver(*common, 1, ignore_progress_share),
    )
    stacks = find_block_stacks(model, inputs)
    for observer in observers:
        before = len(device.on_device)
        with one_pass("own"), device:
            observe_forward_pass(observer, model, stacks, inputs)
        assert len(device.on_device) > before, "the model's own tensors were not followed"
