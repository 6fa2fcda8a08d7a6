"""Every architecture with an oracle, every combination of switches: the unmodified model code, with parts switched off
while it runs, equals a forward pass written by hand."""

from collections import defaultdict
from itertools import product

import numpy as np
import pytest
import torch
from oracles.forwards import ORACLES
from oracles.forwards.tiny_models import TINY

from attncli.checkpoints.ablation import examine, switched
from attncli.checkpoints.ablation.float64 import in_float64
from attncli.checkpoints.blocks import watching_states
from attncli.networks.variants import Switches

EVERY = [
    Switches(skip, mlp, mlp_skip, False, norms, mlp_norm, as_published)
    for skip, mlp, mlp_skip, norms, mlp_norm, as_published in product([True, False], repeat=6)
]
TOLERANCE = 1e-10


def worst_difference(ours: dict[str, dict[int, np.ndarray]], theirs: dict[str, list]) -> float:
    """The largest, relative to the largest entry of its own state; XLNet's second stream is no stack of ours."""
    stacks = set(theirs) - {"query"}
    named = dict(zip(ours, ours.values(), strict=True)) if set(ours) == stacks else {}
    if not named:
        (only,) = ours.values()
        named = {stacks.pop(): only}
    worst = 0.0
    for stack, states in named.items():
        assert list(states) == list(range(len(theirs[stack])))
        for state, expected in enumerate(theirs[stack]):
            error = np.abs(states[state] - expected).max() / np.abs(expected).max()
            worst = max(worst, float(error))
    return worst


@pytest.mark.parametrize("name", TINY)
def test_every_combination_equals_the_oracle(name: str) -> None:
    model, inputs = TINY[name]()
    forward = ORACLES[model.config.model_type].forward
    for implementation in ("sdpa", "eager"):
        if model._can_set_attn_implementation():
            model.set_attn_implementation(implementation)
        with in_float64():
            anatomy = examine(model, inputs)
        for switches in EVERY:
            states: dict[str, dict[int, np.ndarray]] = defaultdict(dict)

            def keep(stack: str, state: int, hidden: torch.Tensor, states=states) -> None:
                states[stack][state] = hidden[0].numpy().copy()

            with (
                in_float64(),
                watching_states(model, anatomy.stacks, keep),
                switched(model, anatomy, switches),
            ):
                model(**inputs)
            expected = forward(model, inputs, switches)
            assert worst_difference(states, expected) < TOLERANCE, (implementation, switches)
