"""RMS norms that models write out by hand: recognised by name, believed only if they compute what the rule computes."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from attncli.checkpoints.ablation.norms import is_norm
from attncli.checkpoints.exact.functions import is_stream, norm
from attncli.checkpoints.exact.tensor import SplitTensor
from attncli.checkpoints.structure.wrapping import around_forwards

EPSILONS = ("variance_epsilon", "eps", "epsilon")
"""How transformers' RMS norms call their ε."""

AGREEMENT = 1e-5
"""Between a module and the rule on plain numbers, relative: modules may compute in float32."""


@contextmanager
def exact_norms(model: nn.Module) -> Iterator[None]:
    """In this context the model's RMS norms take split tensors."""
    known: dict[nn.Module, Understood | None] = {}

    def around(forward: Any, module: nn.Module, args: Any, kwargs: Any) -> Any:
        x = args[0] if args else None
        if not isinstance(x, SplitTensor):
            return forward(*args, **kwargs)
        if not is_stream(x) or len(args) > 1 or kwargs:
            return forward(x.plain(), *args[1:], **kwargs)
        if module not in known:
            known[module] = understood(module, forward, x.shape[-1])
        found = known[module]
        return forward(x) if found is None else norm(x, found.epsilon, False, found.gain, None)

    with around_forwards(filter(is_written_out, model.modules()), around):
        yield


class Understood(NamedTuple):
    """An RMS norm."""

    epsilon: float
    gain: Tensor | None


def is_written_out(module: nn.Module) -> bool:
    return is_norm(module) and not isinstance(module, (nn.LayerNorm, nn.RMSNorm))


def understood(
    module: nn.Module, usual: Callable[[Tensor], Tensor], width: int
) -> Understood | None:
    """The RMS norm that gives what the module gives on a few random tokens; None where it is no RMS norm."""
    epsilon = next((float(getattr(module, e)) for e in EPSILONS if hasattr(module, e)), 0.0)
    weight = getattr(module, "weight", None)
    generator = torch.Generator().manual_seed(0)
    tokens = torch.randn(3, width, generator=generator, dtype=torch.float64)
    wanted = usual(tokens).double()
    root = torch.rsqrt(tokens.square().mean(-1, keepdim=True) + epsilon)
    for gain in (weight, None if weight is None else 1.0 + weight.double()):
        ours = tokens * root * (1.0 if gain is None else gain)
        if torch.allclose(ours, wanted, rtol=AGREEMENT, atol=AGREEMENT * 1e-3):
            return Understood(epsilon, gain)
    return None
