"""Count the positions that an image or a sound becomes: the tokens of the first block that attends."""

import torch
from torch import nn

from attncli.capture.forward_wrappers import wrap_forwards
from attncli.capture.model_errors import run_model_or_refuse_input
from attncli.capture.model_structure.blocks import find_block_lists
from attncli.capture.model_structure.probe_forward import ForwardProber, ModuleCall
from attncli.capture.model_structure.residual_stream import (
    read_batch_size,
    reshape_to_batch_token_feature,
)
from attncli.capture.reruns.seed_and_precision import preserve_float64_precision
from attncli.forward_argument_types import Inputs


class StopAtFirstAttention(Exception):
    """Raised at the first attention, to skip the rest of the forward."""


class FirstBlockProber(ForwardProber):
    """Records the inputs of open calls, until one of them attends."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__(model)
        self.stream_inputs: dict[ModuleCall, torch.Tensor | None] = {}
        self.watch.on_attention = self.stop_at_first_attention

    def record_module_call_start(
        self, call: ModuleCall, stream: torch.Tensor | None, states: list[torch.Tensor]
    ) -> None:
        super().record_module_call_start(call, stream, states)
        self.stream_inputs[call] = stream

    def stop_at_first_attention(self) -> None:
        self.result.attention.append(tuple(self.open))
        raise StopAtFirstAttention


def count_input_positions(model: nn.Module, inputs: Inputs) -> int | None:
    """Count positions by a forward that ends in the first block; None where no attention runs."""
    prober = FirstBlockProber(model)
    aliases = {
        name: value.detach() if isinstance(value, torch.Tensor) else value
        for name, value in inputs.items()
    }
    prober.watch.mark_tensors_as_activations(aliases)
    try:
        with (
            preserve_float64_precision(model),
            torch.no_grad(),
            wrap_forwards(prober.names, prober.run_and_record_forward),
            prober.watch,
        ):
            model(**aliases)
    except StopAtFirstAttention:
        return count_first_block_tokens(
            prober, find_block_lists(model, prober.result), read_batch_size(inputs)
        )
    except Exception:
        with torch.no_grad():
            # this run raises the error if the model's own code fails
            run_model_or_refuse_input(model, inputs)
        raise
    return None


def count_first_block_tokens(
    prober: FirstBlockProber, lists: set[str | None], batch: int
) -> int | None:
    for call in prober.result.attention[0]:
        stream = prober.stream_inputs.get(call)
        if call.container in lists and stream is not None:
            return int(reshape_to_batch_token_feature(stream, batch, call.module).shape[1])
    return None
