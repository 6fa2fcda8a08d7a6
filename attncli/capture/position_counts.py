"""How many positions an image or a sound becomes: what the first block that attends is given."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import nn

from attncli.capture.forward_wrappers import around_forwards
from attncli.capture.model_errors import first_run
from attncli.capture.reruns.float64 import precision_of
from attncli.capture.stacks.blocks import block_lists
from attncli.capture.stacks.probe_forward import Call, Prober
from attncli.capture.stacks.token_layout import as_tokens, batch_size


class SeenPositions(Exception):
    """The first attention has been reached: no more of the forward is needed."""


class FirstBlock(Prober):
    """Keeps what the open calls were given, until one of them attends."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__(model)
        self.given: dict[Call, torch.Tensor | None] = {}
        self.watch.on_attention = self.stop

    def enter(self, call: Call, stream: torch.Tensor | None, given: list[torch.Tensor]) -> None:
        super().enter(call, stream, given)
        self.given[call] = stream

    def stop(self) -> None:
        self.found.attention.append(tuple(self.open))
        raise SeenPositions


def positions(model: nn.Module, inputs: Mapping[str, Any]) -> int | None:
    """By a forward that ends in the first block; None where there is none to be seen."""
    prober = FirstBlock(model)
    aliases = {
        name: value.detach() if isinstance(value, torch.Tensor) else value
        for name, value in inputs.items()
    }
    prober.watch.mark(aliases)
    try:
        with (
            precision_of(model),
            torch.no_grad(),
            around_forwards(prober.names, prober.around),
            prober.watch,
        ):
            model(**aliases)
    except SeenPositions:
        return size_of(prober, block_lists(model, prober.found), batch_size(inputs))
    except Exception:
        with torch.no_grad():
            first_run(model, inputs)  # which says so, if it is the model's own code that fails
        raise
    return None


def size_of(prober: FirstBlock, lists: set[str | None], batch: int) -> int | None:
    for call in prober.found.attention[0]:
        stream = prober.given.get(call)
        if call.container in lists and stream is not None:
            return int(as_tokens(stream, batch, call.module).shape[1])
    return None
