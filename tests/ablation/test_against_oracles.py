"""Every architecture with an oracle, every combination of switches: the unmodified model code, with parts switched off
while it runs, equals a forward pass written by hand, to 1e-10 in float64."""

from collections import defaultdict
from itertools import product
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from oracles.forwards import ORACLES
from oracles.forwards.library import worst_difference
from oracles.forwards.tiny_models import TINY

from attncli.ablation import BlockAnatomy, ablate_sub_blocks, recognise_block_anatomy
from attncli.capture.model_structure.blocks import observe_block_states
from attncli.capture.reruns.seed_and_precision import force_float64
from attncli.networks.ablation_variants import AblationSwitches

States = dict[str, list[NDArray[np.float64]]]

torch.set_num_threads(1)

EVERY = [
    AblationSwitches(skip, mlp, mlp_skip, False, norms, mlp_norm, as_published)
    for skip, mlp, mlp_skip, norms, mlp_norm, as_published in product([True, False], repeat=6)
    if not (mlp and (mlp_norm or as_published))  # both are about a model without its MLP
]
PAPER = [
    AblationSwitches(),
    AblationSwitches(skip=False),
    AblationSwitches(mlp=False),
    AblationSwitches(False, False, False),
]
TOLERANCE = 1e-10


def states(
    model: Any, inputs: Any, anatomy: BlockAnatomy, switches: AblationSwitches
) -> tuple[States, Any]:
    """Of each stack, under the names of the oracles; and the model's output."""
    seen: States = defaultdict(list)

    def keep(stack: str, state: int, hidden: torch.Tensor) -> None:
        name = stack if len(anatomy.stacks) > 1 else "layers"
        assert state == len(seen[name])
        seen[name].append(hidden[0].numpy().copy())

    watching = observe_block_states(model, anatomy.stacks, keep)
    with force_float64(), watching, ablate_sub_blocks(model, anatomy, switches):
        output = model(**inputs)
    return dict(seen), output


def expected(model: Any, inputs: Any, switches: AblationSwitches) -> States:
    """By hand."""
    found: States = ORACLES[model.config.model_type].forward(model, inputs, switches)
    return found


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in TINY if name != "xlnet-two-streams"])
def test_every_combination_equals_the_oracle(name: str) -> None:
    """By turns: a third of them, and the paper's, in each architecture."""
    model, inputs = TINY[name]()
    with force_float64():
        anatomy = recognise_block_anatomy(model, inputs)
    turn = [*TINY].index(name)
    for switches in (*PAPER, *EVERY[turn % 3 :: 3]):
        found, _ = states(model, inputs, anatomy, switches)
        assert worst_difference(found, expected(model, inputs, switches)) < TOLERANCE, switches


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in TINY if "xlnet" not in name])
def test_the_attention_implementation_does_not_matter(name: str) -> None:
    """The paper's variants once more, with every model's own eager attention."""
    model, inputs = TINY[name]()
    model.set_attn_implementation("eager")
    with force_float64():
        anatomy = recognise_block_anatomy(model, inputs)
    for switches in PAPER:
        found, _ = states(model, inputs, anatomy, switches)
        assert worst_difference(found, expected(model, inputs, switches)) < TOLERANCE, switches


@pytest.mark.slow
def test_both_streams_of_xlnet_are_switched() -> None:
    """The query stream is no stack of its own; its last state is the model's output."""
    model, inputs = TINY["xlnet-two-streams"]()
    with force_float64():
        anatomy = recognise_block_anatomy(model, inputs)
    for switches in EVERY:
        found, output = states(model, inputs, anatomy, switches)
        right = expected(model, inputs, switches)
        found["query"] = [output.last_hidden_state[0].numpy()]
        last_queries = {**right, "query": right["query"][-1:]}
        assert worst_difference(found, last_queries) < TOLERANCE, switches
