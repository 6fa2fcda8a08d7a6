"""The circle: what counts as collapse and as a stop, and the report on both."""

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest
import torch

from attncli.commands.reproduce.circle import iterated_network_measurements
from attncli.commands.reproduce.circle.arc_positions import (
    PAIRS,
    RADIUS,
    STEP,
    compute_arc_positions,
)
from attncli.commands.reproduce.circle.circle_network import sample_initial_weights
from attncli.commands.reproduce.circle.experiment_settings import Experiment
from attncli.commands.reproduce.circle.iterated_network_measurements import (
    CircleRun,
    first_index_true_to_end,
    iterate_and_measure_network,
)
from attncli.commands.reproduce.circle.network_design import (
    NetworkDesign,
    make_architecture_of_variant,
    make_published_architecture,
)
from attncli.commands.reproduce.circle.report import (
    OWN_METRICS,
    build_circle_rows,
    build_iteration_findings,
    describe_collapse_rate,
    format_collapse_headline,
    select_steps_to_report,
)
from attncli.commands.reproduce.circle.train_and_measure import train_and_measure_circle_networks
from attncli.maths.common_row_arithmetic.arrays_with_integer_exponent import make_scaled_array
from attncli.maths.common_row_arithmetic.common_row_plus_deviation import SplitState
from attncli.records import Report, Row
from attncli.render import FORMATS

torch.set_num_threads(1)

RESIDUAL = "log10_residual"
SAN, WITH_SKIP = (
    make_architecture_of_variant(8, "SAN"),
    make_architecture_of_variant(8, "SAN+skip"),
)


@pytest.mark.parametrize(
    ("holds", "step"),
    [
        ([False, True, True], 1),
        ([True, True], 0),
        ([True, False, True], 2),
        ([True, True, False], None),
        ([False], None),
    ],
)
def test_what_is_settled_holds_to_the_end(holds: list[bool], step: int | None) -> None:
    assert first_index_true_to_end(holds) == step


def test_few_of_many_steps_are_told() -> None:
    assert select_steps_to_report(3) == [0, 1, 2, 3]
    told = select_steps_to_report(300)
    assert told[:13] == [*range(11), 12, 15]
    assert told[-1] == 300
    assert len(told) < 30
    assert told == sorted(set(told))


def run_of(states: Sequence[Any], monkeypatch: pytest.MonkeyPatch) -> CircleRun:
    """What is measured on a recurrence that goes through these places [step, point, 2]."""

    def walk(design: NetworkDesign, weights: object, steps: int) -> Iterator[SplitState]:
        yield from (SplitState.from_states(np.asarray(state)) for state in states)

    monkeypatch.setattr(iterated_network_measurements, "iterate_predictions", walk)
    return iterate_and_measure_network(
        SAN, {}, 0.0, len(states) - 1, [RESIDUAL], lambda steps: None
    )


def test_a_pair_that_follows_its_arcs(monkeypatch: pytest.MonkeyPatch) -> None:
    run = run_of(compute_arc_positions(PAIRS), monkeypatch)
    assert run.arc_error == 0.0
    assert run.steps_on_arc == PAIRS - 1
    assert run.moves == pytest.approx([1.0] * (PAIRS - 1))
    assert (run.collapse_step, run.stop_step) == (None, None)


def test_a_pair_that_stands_apart_stops_and_does_not_collapse(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    walked = compute_arc_positions(20)
    run = run_of([*walked[:6], *[walked[5]] * 14], monkeypatch)
    assert (run.collapse_step, run.stop_step) == (None, 5)
    assert run.steps_on_arc == 19  # the circle has gone on by 14 steps, 0.088 radii


@pytest.mark.parametrize(("share", "stops"), [(0.005, True), (0.02, False)])
def test_a_pair_that_creeps_has_stopped_below_a_hundredth_of_a_step(
    share: float, stops: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    creeping = [compute_arc_positions(1)[0] + [0.0, step * share * STEP] for step in range(5)]
    assert (run_of(creeping, monkeypatch).stop_step is not None) is stops


def test_a_pair_that_jumps_together_collapses_and_does_not_stop(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    away = np.array([[0.2, 0.1], [0.2, 0.1 + 1e-4]])
    run = run_of([*compute_arc_positions(3), *[away, -away] * 4], monkeypatch)
    assert (run.collapse_step, run.stop_step) == (3, None)
    assert run.steps_on_arc == 3


def test_points_that_part_again_have_not_collapsed(monkeypatch: pytest.MonkeyPatch) -> None:
    close = np.array([[0.2, 0.1], [0.2, 0.1 + 1e-4]])
    assert (
        run_of(
            [compute_arc_positions(1)[0], close, close, compute_arc_positions(1)[0]], monkeypatch
        ).collapse_step
        is None
    )


def test_the_distance_to_the_arcs_is_the_farther_points(monkeypatch: pytest.MonkeyPatch) -> None:
    moved = compute_arc_positions(2)
    moved[1, 1] += [0.0, RADIUS / 2]
    run = run_of(moved, monkeypatch)
    assert run.distances == pytest.approx([0.0, 0.5])
    assert run.arc_error == pytest.approx(math.sqrt(0.125))
    assert run.steps_on_arc == 1


def test_points_that_rounding_cannot_tell_apart_are_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """The curve's null has a reason, and the order is that of what is resolved."""
    falling = [
        SplitState(
            make_scaled_array(np.array([0.2, 0.1])),
            make_scaled_array(np.array([[1.0], [-1.0]]) * 10.0**-power),
            False,
        )
        for power in (1, 3, 9, 27, 81)
    ]
    one = SplitState(
        make_scaled_array(np.array([0.2, 0.1])), make_scaled_array(np.zeros((2, 2))), plain=False
    )

    def walk(design: NetworkDesign, weights: object, steps: int) -> Iterator[SplitState]:
        yield from [*falling, one, one]

    monkeypatch.setattr(iterated_network_measurements, "iterate_predictions", walk)
    run = iterate_and_measure_network(SAN, {}, 0.0, 6, [RESIDUAL], lambda steps: None)
    assert run.collapse_step == 1
    assert run.collapse_order == pytest.approx(3.0, rel=0.05)
    rows = list(build_circle_rows({(8, "SAN"): [run]}))
    (last,) = (row for row in rows if row.metric == RESIDUAL and row.keys["step"] == 6)
    assert (last.value, last.note) == (None, "zero, or rounding leaves nothing of it")


def made(collapses_at: int | None, stops_at: int | None, slope: float = -0.5) -> CircleRun:
    """A run of 20 steps that collapses and stops where it is told to."""
    flat = 20 if collapses_at is None else collapses_at - 1
    curve = [-0.1] * (flat + 1) + [-2.5 + slope * step for step in range(20 - flat)]
    moves = [0.5 if stops_at is None or step < stops_at else 0.0 for step in range(20)]
    return CircleRun(1e-4, {RESIDUAL: curve}, moves, [0.0, *[0.3] * 20])


MADE = {
    (32, "SAN"): [made(4, None), made(6, 10), made(None, 10)],
    (64, "SAN"): [made(None, None)] * 3,
}


def value(rows: Sequence[Row], metric: str, width: int, **keys: Any) -> Row:
    (found,) = (
        row
        for row in rows
        if row.metric == metric and {"width": width, **keys}.items() <= row.keys.items()
    )
    return found


def test_rows_tell_shares_and_the_steps_of_those_that_have_one() -> None:
    rows = list(build_circle_rows(MADE))
    share = value(rows, "collapse_share", 32)
    assert (share.value, share.n, share.variant) == (pytest.approx(2 / 3), 3, "SAN")
    step = value(rows, "collapse_step", 32)
    assert (step.value, step.n, step.spread) == (5.0, 2, pytest.approx(math.sqrt(2.0)))
    assert value(rows, "stop_step", 32).value == 10.0
    assert value(rows, "collapse_order", 32).value == pytest.approx(1.0)
    none = value(rows, "collapse_step", 64)
    assert (none.value, none.note, none.is_missing) == (
        None,
        "n/a: no run has a collapse step",
        False,
    )
    assert value(rows, "collapse_share", 64).value == 0.0
    assert value(rows, "steps_on_arc", 64).value == 1.0


def test_curves_are_the_lowest_the_median_and_the_highest_of_the_seeds() -> None:
    rows = list(build_circle_rows(MADE))
    last = [value(rows, RESIDUAL, 32, step=20, quantile=q).value for q in (0.0, 0.5, 1.0)]
    assert last == sorted(run.curves[RESIDUAL][20] for run in MADE[32, "SAN"])
    alone = list(build_circle_rows({(32, "SAN"): [made(4, None)]}))
    assert {row.keys.get("quantile") for row in alone} == {None, 0.5}


def test_words() -> None:
    assert format_collapse_headline(MADE, published=False) == (
        "Runs in which the two points become one, at width 32: SAN 2 of 3 (step 5 ± 1); at width 64: SAN 0 of 3."
    )
    assert format_collapse_headline(MADE, published=True).startswith(
        "Runs as published in which the two points become one, at width 32: "
    )
    (finding,) = build_iteration_findings(MADE)
    assert finding.text == (
        "the points become one in 2 of 6 runs, at step 5 ± 1 (4 to 6), by a constant factor a step (order 1.00); "
        "they stop in 2 of 6 runs, at step 10 ± 0 (10 to 10); median of the steps on their arcs: 1"
    )


@pytest.mark.parametrize(
    ("orders", "words"),
    [
        ([3.0, 3.0, 2.99], ", doubly exponentially (order 3.00)"),
        ([1.02, 0.98], ", by a constant factor a step (order 1.00)"),
        ([1.67], ", at order 1.67"),
        ([3.0, None, None], ""),
        ([None], ""),
    ],
)
def test_a_law_is_named_only_where_most_runs_show_it(
    orders: list[float | None], words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = iter(orders)
    monkeypatch.setattr(CircleRun, "collapse_order", property(lambda run: next(given)))
    assert describe_collapse_rate([made(4, None) for _ in orders]) == words


SMALL = Experiment(seeds=[0, 1], training_steps=5, steps=12)


def small(progress: Any = lambda *args: None, **options: Any) -> Report:
    designs = {(8, "SAN"): SAN, (8, "SAN+skip"): WITH_SKIP}
    return train_and_measure_circle_networks(
        designs, SMALL, ["stable_rank"], progress=progress, **options
    )


def test_the_same_seeds_give_the_same_bytes_and_every_number_is_defined() -> None:
    first = small()
    assert FORMATS["json"](first) == FORMATS["json"](small())
    assert {row.metric for row in first.rows} == set(first.metrics)
    assert set(first.metrics) == {*OWN_METRICS, RESIDUAL, "stable_rank"}
    assert first.source["variants"]["SAN"]["skip"] is False
    assert first.source["training"]["steps"] == 5


def test_progress_ends_at_its_total() -> None:
    seen: list[tuple[int, int]] = []
    small(progress=lambda done, total, what: seen.append((done, total)))
    assert seen[-1] == (2 * (5 + 2 * 13), 2 * (5 + 2 * 13))
    assert [done for done, _ in seen] == sorted(done for done, _ in seen)


def test_attention_without_a_skip_cubes_the_distance_and_with_one_does_not() -> None:
    """Untrained, so that it depends on no training: order 3 in every run that has no skip."""
    for name, cubes in (("SAN", True), ("SAN+MLP-noskip", True), ("SAN+skip", False)):
        design = make_architecture_of_variant(16, name)
        for seed in range(3):
            run = iterate_and_measure_network(
                design, sample_initial_weights(design, seed), 0.0, 14, [RESIDUAL], lambda n: None
            )
            order = run.collapse_order or 0.0
            assert (abs(order - 3.0) < 0.01) is cubes, (name, seed, order)
            assert (run.collapse_step is not None and run.collapse_step <= 5) >= cubes


def test_as_published_is_another_experiment() -> None:
    designs = {(8, name): make_published_architecture(8, name) for name in ("SAN", "SAN+skip")}
    found = train_and_measure_circle_networks(designs, SMALL, [], published=True)
    assert found.source["as_published"]
    assert (
        found.source["variants"]["SAN"] | {"running_sum": True}
        == (found.source["variants"]["SAN+skip"])
    )
    assert found.headline.startswith("Runs as published ")
    assert "the layer's own skip is never removed" in found.warnings[0]
    assert not small().warnings
