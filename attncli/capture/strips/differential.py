"""Differential attention (Ye et al. 2024): a layer applies one softmax map less λ times another.

Both maps of a pair are heads of one call of the attention interface: head h is the first, head h + H/2 the other. The
model calls it twice with the same queries and keys, as its values have two halves. What the second call would show has
been shown, so there the map is handed on that the model applies.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from attncli.capture.strips.attention_interface import Strip
from attncli.errors import InputError

PARAMETERS = ("lambda_q1", "lambda_k1", "lambda_q2", "lambda_k2")

NEAR = 1e-6
"""How far what the model computes may be from these formulas, as a part of it: it takes its λ in float32."""


def is_differential(module: nn.Module) -> bool:
    return all(hasattr(module, name) for name in (*PARAMETERS, "lambda_init"))


def differential_lambda(module: nn.Module) -> float:
    """λ: how much of the other map is taken off."""
    q1, k1, q2, k2 = (module.get_parameter(name).double() for name in PARAMETERS)
    learned = torch.exp((q1 * k1).sum()) - torch.exp((q2 * k2).sum())
    return float(learned) + float(module.lambda_init)  # type: ignore[arg-type]


def subtract_share(pairs: Tensor, share: float, dim: int) -> Tensor:
    """The first half less a share of the other half."""
    first, other = pairs.chunk(2, dim=dim)
    return first - share * other


def to_applied_map(strip: Strip, share: float) -> Strip:
    """The map that the model applies, of a strip of both."""
    weights = subtract_share(strip.weights, share, dim=1)
    return strip._replace(weights=weights, outputs=None, scores=None, total=1.0 - share, sides=None)


class DifferentialPairs:
    """Tells the second call of each differential attention from the first, and proves what is made of both."""

    def __init__(self, model: nn.Module) -> None:
        self.modules = [module for module in model.modules() if is_differential(module)]
        self.restart()

    def restart(self) -> None:
        """A new forward pass begins."""
        self.first: dict[nn.Module, tuple[Tensor, Tensor, Tensor]] = {}
        """Queries, keys and output of the first calls whose second has not come."""
        self.due: dict[nn.Module, Tensor] = {}
        """What the attention must compute next."""

    def is_second(self, module: nn.Module, query: Tensor, key: Tensor) -> bool:
        """Whether the first call had the same queries and keys; another call than these two is refused."""
        if module not in self.first:
            return False
        if self.first[module][0] is not query or self.first[module][1] is not key:
            raise unknown_differential_error(module)
        return True

    def take(self, module: nn.Module, query: Tensor, key: Tensor, output: Tensor) -> None:
        """The output of either call."""
        if module not in self.first:
            self.first[module] = query, key, output
            return
        both = torch.cat([self.first.pop(module)[2], output], dim=-1)
        self.due[module] = subtract_share(both, differential_lambda(module), dim=2)

    def check(self, module: nn.Module, given: Any) -> None:
        """A part of the attention is about to run: the first after both calls is given what they make together."""
        expected = self.due.pop(module, None)
        if expected is None:
            return
        if not isinstance(given, Tensor) or given.shape != expected.shape:
            raise unknown_differential_error(module)
        allowed = max(NEAR, torch.finfo(given.dtype).eps ** 0.5)
        if not float((given - expected).abs().max()) <= allowed * float(given.abs().max()):
            raise unknown_differential_error(module)

    def refuse_unproved(self) -> None:
        """The forward pass is over."""
        for module in (*self.first, *self.due):
            raise unknown_differential_error(module)

    @contextmanager
    def watching(self) -> Iterator[None]:
        handles = [
            part.register_forward_pre_hook(
                lambda _, args, module=module: self.check(module, args[0] if args else None)
            )
            for module in self.modules
            for part in module.children()
        ]
        try:
            yield
        finally:
            for handle in handles:
                handle.remove()


def unknown_differential_error(module: nn.Module) -> InputError:
    return InputError(
        f"{type(module).__name__} has the parameters of differential attention and computes something else: which maps "
        "it applies is not understood."
    )
