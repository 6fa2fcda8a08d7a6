"""Differential attention (Ye et al. 2024): a layer applies one softmax map minus λ times another.

Both maps of a pair are heads of one call of the attention interface: head h is the first, head h + H/2 the second. As its
values have two halves, the model calls it twice with the same queries and keys. The second call would show the same maps
again, so there the map that the model applies is emitted.
"""

from contextlib import AbstractContextManager

import torch
from torch import Tensor, nn

from attncli.capture.forward_wrappers import hook_forwards
from attncli.capture.reruns.seed_and_precision import move_to_float64_device
from attncli.capture.softmax_attention.attention_interface import Strip
from attncli.errors import InputError
from attncli.tolerances import DIFFERENTIAL_OUTPUT

PARAMETERS = ("lambda_q1", "lambda_k1", "lambda_q2", "lambda_k2")


def is_differential_attention(module: nn.Module) -> bool:
    return all(hasattr(module, name) for name in (*PARAMETERS, "lambda_init"))


def compute_differential_lambda(module: nn.Module) -> float:
    """λ: the share of the second map that is subtracted."""
    weights = map(module.get_parameter, PARAMETERS)
    q1, k1, q2, k2 = (move_to_float64_device(weight).double() for weight in weights)
    learned = torch.exp((q1 * k1).sum()) - torch.exp((q2 * k2).sum())
    return float(learned) + float(module.lambda_init)  # type: ignore[arg-type]


def subtract_lambda_times_second_half(pairs: Tensor, share: float, dim: int) -> Tensor:
    """Subtract a share of the second half from the first."""
    first, other = pairs.chunk(2, dim=dim)
    return first - share * other


def compute_differential_map_rows(strip: Strip, share: float) -> Strip:
    """Turn a strip of both maps into one of the map that the model applies."""
    weights = subtract_lambda_times_second_half(strip.weights, share, dim=1)
    return strip._replace(weights=weights, outputs=None, scores=None, total=1.0 - share, sides=None)


class DifferentialPairs:
    """Recognises the second call of each differential attention, and verifies the map made from both."""

    def __init__(self, model: nn.Module) -> None:
        self.modules = [module for module in model.modules() if is_differential_attention(module)]
        self.start_forward_pass()

    def start_forward_pass(self) -> None:
        """Start a new forward pass."""
        self.first: dict[nn.Module, tuple[Tensor, Tensor, Tensor]] = {}
        """Queries, keys and output of first calls whose second is still to come."""
        self.due: dict[nn.Module, Tensor] = {}
        """The result that each attention must compute next."""

    def is_second_softmax_call_of_layer(
        self, module: nn.Module, query: Tensor, key: Tensor
    ) -> bool:
        """Whether this is the second call, with the same queries and keys as the first; other calls are refused."""
        if module not in self.first:
            return False
        if self.first[module][0] is not query or self.first[module][1] is not key:
            raise make_unknown_differential_error(module)
        return True

    def record_output_of_one_map(
        self, module: nn.Module, query: Tensor, key: Tensor, output: Tensor
    ) -> None:
        """Take the output of either call."""
        if module not in self.first:
            self.first[module] = query, key, output
            return
        both = torch.cat([self.first.pop(module)[2], output], dim=-1)
        self.due[module] = subtract_lambda_times_second_half(
            both, compute_differential_lambda(module), dim=2
        )

    def check_map_subtraction(self, module: nn.Module, value: object) -> None:
        """Compare the input of the first submodule after both calls with what the two calls give together."""
        expected = self.due.pop(module, None)
        if expected is None:
            return
        if not isinstance(value, Tensor) or value.shape != expected.shape:
            raise make_unknown_differential_error(module)
        allowed = DIFFERENTIAL_OUTPUT.tolerance_for_dtype(value.dtype)
        if not float((value - expected).abs().max()) <= allowed * float(value.abs().max()):
            raise make_unknown_differential_error(module)

    def refuse_unverified_map_subtractions(self) -> None:
        """Refuse attention that was not verified by the end of the forward pass."""
        for module in (*self.first, *self.due):
            raise make_unknown_differential_error(module)

    def hook_map_subtraction_checks(self) -> AbstractContextManager[None]:
        return hook_forwards(
            (
                part,
                lambda _, args, module=module: self.check_map_subtraction(
                    module, args[0] if args else None
                ),
            )
            for module in self.modules
            for part in module.children()
        )


def make_unknown_differential_error(module: nn.Module) -> InputError:
    return InputError(
        f"{type(module).__name__} has the parameters of differential attention and computes something else: which maps "
        "it applies is not understood."
    )
