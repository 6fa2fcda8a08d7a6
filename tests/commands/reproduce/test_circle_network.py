"""Two arcs, a network by name and as published, its training seed by seed, and its recurrence to any depth."""

import itertools
import math
from typing import Any

import numpy as np
import pytest
import torch
from oracles import circle as oracle

from attncli.commands.reproduce.circle import iterated_predictions as module
from attncli.commands.reproduce.circle.arc_positions import (
    AROUND,
    PAIRS,
    RADIUS,
    STEP,
    compute_arc_positions,
)
from attncli.commands.reproduce.circle.circle_network import (
    BATCH,
    BATCHES,
    BatchedCircleNetworks,
    Dropout,
    build_training_loss,
    compute_training_losses,
    keep_states_without_dropout,
    sample_initial_weights,
)
from attncli.commands.reproduce.circle.experiment_settings import Experiment
from attncli.commands.reproduce.circle.iterated_predictions import iterate_predictions
from attncli.commands.reproduce.circle.network_design import (
    DROPOUT,
    NetworkDesign,
    make_architecture_of_variant,
    make_published_architecture,
)
from attncli.commands.reproduce.training_loop import train_network
from attncli.errors import BelowResolution, UsageError
from attncli.maths.common_row_arithmetic.arrays_with_integer_exponent import Array
from attncli.maths.common_row_arithmetic.common_row_plus_deviation import SplitParts, SplitState
from attncli.metrics.log10_residual import log10_residual
from attncli.networks.ablation_variants import VARIANTS, AblationSwitches

torch.set_num_threads(1)

NAMED = [pytest.param(make_architecture_of_variant(8, name), id=name) for name in VARIANTS]
PUBLISHED = [
    pytest.param(make_published_architecture(8, name), id=f"published {name}")
    for name in ("SAN", "SAN+MLP", "SAN+skip", "transformer")
]
each_design = pytest.mark.parametrize("design", NAMED + PUBLISHED)


def lively(design: NetworkDesign, seed: int = 0) -> dict[str, Array]:
    """Weights of which none is what it was at the beginning."""
    stream = np.random.default_rng([seed, 7])
    drawn = sample_initial_weights(design, seed)
    return {
        name: value + 0.3 * stream.standard_normal(value.shape) for name, value in drawn.items()
    }


def network_of(design: NetworkDesign, weights: dict[str, Array]) -> BatchedCircleNetworks:
    network = BatchedCircleNetworks(design, [0]).double()
    network.load_state_dict(
        {name: torch.from_numpy(value[None]) for name, value in weights.items()}
    )
    return network


def test_the_points_walk_two_arcs_of_one_circle() -> None:
    walked = compute_arc_positions(AROUND)
    for step, point in itertools.product((0, 1, 250, 498, 999), (0, 1)):
        angle = 2.0 * math.pi * (step + point * PAIRS) / AROUND
        expected = [RADIUS * math.cos(angle), RADIUS * math.sin(angle)]
        assert walked[step, point] == pytest.approx(expected, abs=1e-15)
    assert walked[PAIRS, 0] == pytest.approx(walked[0, 1], abs=1e-15)
    assert np.linalg.norm(np.diff(walked, axis=0), axis=-1) == pytest.approx(STEP, rel=1e-12)


@pytest.mark.parametrize("name", ["SAN", "SAN+MLP", "SAN+skip", "transformer"])
def test_designs_have_what_their_name_says_and_published_ones_keep_the_skip(name: str) -> None:
    named, published = (
        make_architecture_of_variant(32, name),
        make_published_architecture(32, name),
    )
    assert (named.switches, named.running_sum, named.dropout) == (VARIANTS[name], False, 0.0)
    assert published.switches.skip
    assert published.switches.mlp == VARIANTS[name].mlp
    assert published.running_sum == VARIANTS[name].skip
    assert published.dropout == DROPOUT


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(UsageError, match="`width=7` must be a positive multiple of the 2 heads"):
        make_architecture_of_variant(7, "SAN")
    with pytest.raises(UsageError, match="no SAN\\+MLP-noskip"):
        make_published_architecture(8, "SAN+MLP-noskip")


@each_design
def test_the_network_is_the_one_written_out(design: NetworkDesign) -> None:
    weights, n = lively(design), oracle.Arithmetic()
    points = compute_arc_positions(3)[1:]
    expected = [
        oracle.next_points(n.array(pair), weights, n, **switches_of(design)).astype(float)
        for pair in points
    ]
    found = network_of(design, weights)(torch.from_numpy(points)[None], keep_states_without_dropout)
    assert found.detach().numpy()[0] == pytest.approx(np.array(expected), abs=1e-12)


def switches_of(design: NetworkDesign) -> dict[str, bool]:
    own = design.switches
    return {"skip": own.skip, "mlp": own.mlp, "mlp_skip": own.mlp_skip}


@each_design
def test_the_recurrence_is_the_network_applied_to_its_own_output(design: NetworkDesign) -> None:
    """As long as the points are apart; where predictions are added up, their sum is what it is applied to."""
    weights = lively(design, seed=1)
    network = network_of(design, weights)
    given = torch.from_numpy(compute_arc_positions(1))[None]
    states = list(iterate_predictions(design, weights, 4))
    assert np.array_equal(states[0].states.value(), compute_arc_positions(1)[0])
    for state in states[1:]:
        found = network(given, keep_states_without_dropout).detach()
        given = given + found if design.running_sum else found
        assert state.states.value() == pytest.approx(found.numpy()[0, 0], abs=1e-10)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["SAN", "SAN+MLP", "SAN+MLP-noskip", "SAN+skip", "transformer"])
def test_residuals_are_true_far_below_the_smallest_float(name: str) -> None:
    """Against 2500 digits; without the skip the residual is cubed in every step, and 10^-900 after seven or eight."""
    design, n = make_architecture_of_variant(4, name), oracle.Arithmetic(digits=2500)
    weights = sample_initial_weights(design, 3)
    exact = {key: n.array(value) for key, value in weights.items()}
    points = n.array(compute_arc_positions(1)[0])
    for state in iterate_predictions(design, weights, 9):
        expected = oracle.log10_residual(points, n)
        if expected < -1000.0:
            break
        assert log10_residual(state) == pytest.approx(expected, rel=1e-6, abs=1e-9)
        points = oracle.next_points(points, exact, n, **switches_of(design))
    if name == "SAN":
        assert expected < -300.0


def test_points_that_rounding_cannot_tell_apart_go_on_as_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """From where attention says so on: both points are where the network takes their mean."""
    design = make_architecture_of_variant(8, "SAN")
    weights = lively(design)
    first = list(iterate_predictions(design, weights, 1))[1]
    honest = module.apply_attention

    def blind(state: SplitState, *others: Any) -> SplitParts:
        if not state.residual_to_token_mean.is_zero():
            raise BelowResolution("tokens coincide.")
        return honest(state, *others)

    monkeypatch.setattr(module, "apply_attention", blind)
    united = module.predict_next_points(first, design, weights)
    assert log10_residual(united) == -math.inf
    mean = first.states.value().mean(axis=0)
    given = torch.from_numpy(np.array([[[mean, mean]]]))
    expected = (
        network_of(design, weights)(given, keep_states_without_dropout).detach().numpy()[0, 0]
    )
    assert united.states.value() == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("running_sum", [False, True])
def test_a_step_trains_on_its_batch(running_sum: bool) -> None:
    """In their order, the last one shorter; as published a batch stands on the one before it, the first on nothing."""
    design = NetworkDesign(4, AblationSwitches(mlp=False, mlp_skip=False), running_sum)
    network = BatchedCircleNetworks(design, [0, 1])
    loss = build_training_loss(network, [0, 1])
    walked = torch.from_numpy(compute_arc_positions(PAIRS + 1)).float()
    for step in (0, 1, BATCHES - 1, BATCHES, 3 * BATCHES + 2):
        begin = step % BATCHES * BATCH
        pairs = torch.arange(begin, min(begin + BATCH, PAIRS))
        given = walked[pairs]
        if running_sum and begin:
            given = given + walked[pairs - BATCH]
        missed = (
            network(given.expand(2, -1, -1, -1), keep_states_without_dropout) - walked[pairs + 1]
        )
        expected = float((missed**2).sum().detach())
        assert float(loss(step).detach()) == pytest.approx(expected, rel=1e-6)
    assert PAIRS % BATCH


@each_design
def test_seeds_do_not_feel_each_other(design: NetworkDesign) -> None:
    """Trained side by side or alone, with dropout too: the same network."""
    together, alone = BatchedCircleNetworks(design, [3, 5, 8]), BatchedCircleNetworks(design, [5])
    for network, seeds in ((together, [3, 5, 8]), (alone, [5])):
        train_network(
            network,
            build_training_loss(network, seeds),
            Experiment(seeds, 20).build_training_plan(design),
        )
    for name, value in alone.weights_of_seed(0).items():
        assert together.weights_of_seed(1)[name] == pytest.approx(value, abs=1e-7), name
    losses = compute_training_losses(together, [3, 5, 8])
    assert losses[1] == pytest.approx(compute_training_losses(alone, [5])[0], rel=1e-4)
    assert len(set(losses)) == 3


@pytest.mark.slow
def test_training_lowers_the_loss() -> None:
    design = make_architecture_of_variant(16, "SAN+skip")
    network = BatchedCircleNetworks(design, [0])
    before = compute_training_losses(network, [0])[0]
    train_network(
        network, build_training_loss(network, [0]), Experiment([0], 300).build_training_plan(design)
    )
    assert compute_training_losses(network, [0])[0] < 0.7 * before


def test_dropout_depends_on_seed_and_step_alone() -> None:
    states = torch.ones(2, 40, 2, 64)
    one, other = (Dropout(0.1, seeds, 4)(states) for seeds in ([1, 2], [7, 2]))
    assert torch.equal(one[1], other[1])
    assert not torch.equal(one[0], other[0])
    assert not torch.equal(one, Dropout(0.1, [1, 2], 5)(states))
    assert sorted(set(one.flatten().tolist())) == pytest.approx([0.0, 1.0 / 0.9])
    assert float(one.mean()) == pytest.approx(1.0, abs=0.01)


def test_weights_begin_as_released() -> None:
    weights: dict[str, Any] = sample_initial_weights(
        make_published_architecture(128, "transformer"), 0
    )
    assert weights["w_q"].std() == pytest.approx(0.02, rel=0.02)
    assert weights["w_in"].std() == pytest.approx(0.02, rel=0.02)
    assert np.abs(weights["w_v"]).max() == pytest.approx(128**-0.5, rel=0.01)
    assert np.abs(weights["w_o"]).max() == pytest.approx(128**-0.5, rel=0.01)
    assert not weights["b_q"].any()
    assert (weights["mlp_gain"] == 1.0).all()
    assert "w_in" not in sample_initial_weights(make_published_architecture(128, "SAN"), 0)
