"""What the sums of a few paths are worth: against slow loops, and on networks that have learned to sort."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from attncli.capture.model_structure.blocks import find_block_stacks
from attncli.commands.reproduce.path_subnetworks import (
    LayersWithFrozenAttention,
    compute_path_terms_with_fixed_attention,
    layer_norm_without_weights,
    run_path_subnetworks,
)
from attncli.commands.reproduce.sequence_labeller import TokenClassifier, build_token_classifier
from attncli.commands.reproduce.sequence_labelling import path_sum_accuracy
from attncli.commands.reproduce.sequence_labelling.experiment import (
    LabellingRequest,
    accuracies_of_majority_labels,
    measure_path_accuracies,
)
from attncli.commands.reproduce.sequence_labelling.path_sum_accuracy import (
    SampledPathSums,
    measure_fixed_attention_accuracies,
    measure_subnetwork_accuracies,
    sample_sums_of_random_paths,
)
from attncli.commands.reproduce.sequence_labelling.report import (
    format_path_accuracy_headline,
    short_minus_long_path_accuracy,
)
from attncli.commands.reproduce.tasks import TASKS, Examples, Sizes
from attncli.errors import InputError
from attncli.records import Report, Row
from attncli.tensor_subclasses.path_streams.path_tensor_forward import run_single_paths

SIZES = Sizes(layers=3, heads=2, width=12)


@pytest.fixture(autouse=True)
def one_thread() -> Any:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def case() -> tuple[TokenClassifier, torch.Tensor, torch.Tensor, SampledPathSums]:
    """A random network, questions, and sums of paths."""
    task = TASKS["sort"]()
    network = build_token_classifier(task, SIZES, 0).requires_grad_(False)
    network.embedding.norm.bias += torch.linspace(0.0, 3.0, SIZES.width)  # type: ignore[operator, union-attr]
    inputs, labels = map(torch.from_numpy, task.draw(np.random.default_rng(1), 6))
    return (
        network,
        inputs,
        labels,
        sample_sums_of_random_paths(3, 2, [1, 4], 2, np.random.default_rng(2)),
    )


def members(draws: SampledPathSums, counts: torch.Tensor) -> list[tuple[int, ...]]:
    """The paths of a sum, each as often as it stands in it."""
    times = counts.int().tolist()
    return [path for path, n in zip(draws.paths, times, strict=True) for _ in range(n)]


def test_sums_are_of_paths_of_their_length() -> None:
    draws = sample_sums_of_random_paths(4, 3, [2, 7], 3, np.random.default_rng(0))
    assert set(draws.sums) == {(number, length) for number in (2, 7) for length in range(5)}
    assert len(set(draws.paths)) == len(draws.paths)
    for (number, length), counts in draws.sums.items():
        assert counts.sum(dim=1).tolist() == [number] * 3
        for path in members(draws, counts.sum(dim=0)):
            assert len(path) == 4
            assert sum(choice > 0 for choice in path) == length
            assert max(path) <= 3
    same = sample_sums_of_random_paths(4, 3, [2, 7], 3, np.random.default_rng(0))
    assert same.paths == draws.paths


@pytest.mark.slow
def test_frozen_sums_are_sums_of_states(case: Any) -> None:
    """Added before the classifier, path by path, one path in a pass."""
    network, inputs, labels, draws = case
    found = measure_fixed_attention_accuracies(network, inputs, labels, draws, lambda: None)
    stack = find_block_stacks(network, {"inputs": inputs[:1]})[0]
    for wanted, counts in draws.sums.items():
        right = []
        for draw in counts:
            for sequence, own in zip(inputs, labels, strict=True):
                states = sum(
                    run_single_paths(network, stack, {"inputs": sequence[None]}, [path]).terms[0]
                    for path in members(draws, draw)
                )
                right.append((network.classifier(states).argmax(dim=-1) == own).double().mean())
        assert found.accuracies[wanted] == pytest.approx(float(torch.stack(right).mean()))


def test_terms_of_single_paths_are_those_of_the_networks_own_code(
    case: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And where they are not, nothing is reported."""
    network, inputs, labels, draws = case
    with torch.no_grad():
        ours = compute_path_terms_with_fixed_attention(network, inputs, draws.paths)
    stack = find_block_stacks(network, {"inputs": inputs[:1]})[0]
    for place, sequence in enumerate(inputs):
        own = run_single_paths(network, stack, {"inputs": sequence[None]}, draws.paths).terms
        found = torch.stack([term[place] for term in ours])
        assert torch.allclose(found, own, rtol=1e-4, atol=1e-6)
    monkeypatch.setattr(
        LayersWithFrozenAttention, "pass_states_past_attention", lambda self, layer, states: states
    )
    with pytest.raises(InputError, match=r"differ by .* from those of the network's own code"):
        measure_fixed_attention_accuracies(network, inputs, labels, draws, lambda: None)


def test_all_frozen_paths_together_are_the_entire_model(case: Any) -> None:
    network, inputs, labels, draws = case
    found = measure_fixed_attention_accuracies(network, inputs, labels, draws, lambda: None)
    entire = float((network(inputs).argmax(dim=-1) == labels).double().mean())
    assert found.up_to_length[-1] == pytest.approx(entire)
    assert found.up_to_length[0] == found.of_length[0]
    assert 0.0 < found.completeness < 1e-5


def test_paths_that_do_not_add_up_are_not_reported(
    case: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    network, inputs, labels, draws = case
    usual = path_sum_accuracy.decompose_by_path_length

    def off(*args: Any, **kwargs: Any) -> Any:
        found, rest = usual(*args, **kwargs)
        return found._replace(terms=found.terms * 1.001), rest

    monkeypatch.setattr(path_sum_accuracy, "decompose_by_path_length", off)
    with pytest.raises(InputError, match=r"add up to the output within 0\.001 only"):
        measure_fixed_attention_accuracies(network, inputs, labels, draws, lambda: None)


@pytest.mark.parametrize("elements", [1, 10_000, 2**24])
def test_sub_networks_are_added_normalised_and_classified(
    case: Any, elements: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many sequences are held at a time."""
    network, inputs, labels, draws = case
    monkeypatch.setattr(path_sum_accuracy, "ELEMENTS", elements)
    found = measure_subnetwork_accuracies(network, inputs, labels, draws)
    for wanted, counts in draws.sums.items():
        right = []
        for draw in counts:
            states = sum(
                run_path_subnetworks(network, inputs, [path])[0] for path in members(draws, draw)
            )
            logits = network.classifier(layer_norm_without_weights(states))
            right.append((logits.argmax(dim=-1) == labels).double().mean())
        assert found[wanted] == pytest.approx(float(torch.stack(right).mean()))


def test_predictors_that_do_not_look_have_seen_the_training_alone() -> None:
    seen = Examples(np.zeros((3, 2)), np.array([[0, 1], [0, 1], [2, 1]]))
    asked = Examples(np.zeros((2, 2)), np.array([[0, 1], [1, 1]]))
    assert accuracies_of_majority_labels(seen, asked) == {
        "majority label": 0.75,
        "majority label of place": 0.75,
    }
    other = Examples(np.zeros((2, 2)), np.array([[0, 2], [1, 0]]))
    assert accuracies_of_majority_labels(seen, other) == {
        "majority label": 0.25,
        "majority label of place": 0.25,
    }


def test_the_shorter_half_is_held_against_the_longer() -> None:
    assert short_minus_long_path_accuracy(
        {0: 9.0, 1: 0.8, 2: 0.6, 3: 0.1, 4: 0.3}
    ) == pytest.approx(0.5)
    assert short_minus_long_path_accuracy({0: 9.0, 1: 0.8, 2: 7.0, 3: 0.1}) == pytest.approx(0.7)


def words(
    *advantages: tuple[str, float, float | None],
    blind: float = 0.3,
    blind_spread: float | None = None,
    up_to: Sequence[float] = (),
    shares: Sequence[float] = (0.2, 0.7, 0.4, 0.1),
) -> str:
    """The headline of rows made up."""
    rows = [
        Row("accuracy", value, "1", f"{how} 5", spread=spread, n=5, keys={"length": length})
        for how, advantage, spread in advantages
        for length, value in enumerate(shares if advantage >= 0.0 else (shares[0], *shares[:0:-1]))
    ]
    rows += [Row("accuracy_up_to", value, "1", None, spread=0.01, n=5, keys={"length": length}) for length, value in enumerate(up_to)]  # fmt: skip
    rows += [Row("accuracy", blind, "1", "majority label", spread=blind_spread, n=5)]
    rows += [Row("accuracy", 0.99, "1", "entire model"), Row("accuracy", min(blind, 0.3), "1", "majority label of place")]  # fmt: skip
    rows += [
        Row("short_minus_long", value, "1", f"{how} 5", spread=spread, n=5)
        for how, value, spread in advantages
    ]
    return format_path_accuracy_headline("sort", rows, [how for how, _, _ in advantages], [1, 5])


@pytest.mark.parametrize(
    ("advantages", "said"),
    [
        (
            [("frozen", 0.4, 0.1)],
            "sort: short paths carry more than long ones; tokens labelled right by a sum of 5 random paths: ",
        ),
        (
            [("frozen", -0.4, 0.1)],
            "sort: short paths carry less than long ones; tokens labelled right by a sum of 5 random paths: ",
        ),
        (
            [("frozen", 0.08, 0.1)],
            "sort: short paths carry no more than long ones; tokens labelled right by a sum of 5 random paths: ",
        ),
        (
            [("frozen", 0.1, None)],
            "sort: short paths carry more than long ones; tokens labelled right by a sum of 5 random paths: ",
        ),
        (
            [("frozen", 0.4, 0.1), ("rerun", 0.2, 0.1)],
            "sort: short paths carry more than long ones; tokens labelled right by a sum of 5 random paths: "
            "70 ± 10 % (frozen) and 70 ± 10 % (rerun) at length 1, 10 ± 10 % (frozen) and 10 ± 10 % (rerun) at length 3; "
            "by the entire model: 99 %; by always guessing the most frequent label",
        ),
        (
            [("frozen", 0.4, 0.1), ("rerun", 0.0, 0.1)],
            "sort: frozen: short paths carry more than long ones, rerun: short paths carry no more than long ones; tokens",
        ),
    ],
)
def test_the_headline_answers(advantages: Any, said: str) -> None:
    assert words(*advantages).startswith(said)


SHORT = ("frozen", 0.4, 0.02)


@pytest.mark.parametrize(
    ("given", "said", "not_said"),
    [
        # as measured on convex hulls: no sum beats the guess, all paths together only late
        (
            {"blind": 0.58, "shares": (0.46, 0.58, 0.52, 0.46), "up_to": (0.46, 0.48, 0.49, 0.98)},
            "sort: no sum of 5 random paths beats always guessing the most frequent label; "
            "it takes all paths up to length 3 (of 3) together to beat that guess; tokens labelled right",
            "carry",
        ),
        # a sum that is better, but by less than its spread of 0.02
        ({"blind": 0.69}, "sort: no sum of 5 random paths beats", "carry"),
        # and by less than that of the guess
        ({"blind": 0.6, "blind_spread": 0.2}, "sort: no sum of 5 random paths beats", "carry"),
        # only long ones are better than the guess
        ({"blind": 0.5, "shares": (0.2, 0.45, 0.2, 0.7)}, "sort: short paths carry no more than long ones; ", "carry more"),
        # short ones alone are better, but not once the others of their lengths are there
        (
            {"up_to": (0.2, 0.25, 0.3, 0.99)},
            "sort: short paths carry no more than long ones; it takes all paths up to length 3 (of 3) together to",
            "carry more",
        ),
        ({"up_to": (0.2, 0.8, 0.9, 0.99)}, "sort: short paths carry more than long ones; tokens labelled right by a sum of 5 random paths: ", "it takes"),
    ],
)  # fmt: skip
def test_nothing_is_claimed_that_blind_guessing_beats(
    given: dict[str, Any], said: str, not_said: str
) -> None:
    text = words(SHORT, **given)
    assert text.startswith(said)
    assert not_said not in text


def test_the_better_of_the_blind_predictors_is_named() -> None:
    assert "by always guessing the most frequent label: 50 %." in words(SHORT, blind=0.5)
    assert "by always guessing the most frequent label of the position: 30 %." in words(SHORT)


def asked(**others: Any) -> LabellingRequest:
    task = replace(TASKS["sort"](), test_count=20)
    given: dict[str, Any] = {
        "name": "sort",
        "definition": "",
        "task": task,
        "sizes": Sizes(2, 2, 12),
        "steps": 5,
        "evaluations": ["frozen", "rerun"],
        "numbers": [2],
        "seeds": [0, 1],
    }
    return LabellingRequest(**{**given, **others})


def values(report: Report, metric: str, variant: str | None) -> list[float]:
    return [
        row.value or 0.0
        for row in report.rows
        if row.metric == metric and row.variant == variant and "length" in row.keys
    ]


def test_every_step_of_the_work_is_told() -> None:
    told: list[tuple[int, int]] = []
    measure_path_accuracies(asked(), lambda done, total, what: told.append((done, total)))
    done = [done for done, _ in told]
    assert done == sorted(done)
    assert {total for _, total in told} == {done[-1]}


def test_a_network_that_has_learned_nothing_is_said() -> None:
    report = measure_path_accuracies(asked())
    assert "it has not learned its task" in report.warnings[0]


@pytest.mark.parametrize(("evaluations", "other"), [(["frozen"], "rerun"), (["rerun"], "frozen")])
def test_only_what_is_asked_is_evaluated(evaluations: Sequence[str], other: str) -> None:
    report = measure_path_accuracies(asked(evaluations=evaluations, seeds=[0]))
    variants = {str(row.variant) for row in report.rows}
    assert not [variant for variant in variants if variant.startswith(other)]
    assert [row for row in report.rows if row.metric == "completeness_error"]


def test_with_one_layer_nothing_is_compared() -> None:
    report = measure_path_accuracies(asked(sizes=Sizes(1, 2, 12), seeds=[0]))
    assert not [row for row in report.rows if row.metric == "short_minus_long"]
    assert report.headline.startswith("sort: tokens labelled right by a sum of 2 random paths: ")


@pytest.mark.slow
def test_in_networks_that_sort_short_paths_carry_more_than_long_ones() -> None:
    task = TASKS["sort"]()
    questions = asked(
        task=replace(task, test_count=100),
        sizes=replace(task.sizes, layers=4),
        steps=400,
        numbers=[5],
    )
    report = measure_path_accuracies(questions)
    entire = next(row for row in report.rows if row.variant == "entire model")
    assert (entire.value or 0.0) > 0.95
    assert not report.warnings
    assert "short paths carry more than long ones; " in report.headline
    for variant in ("frozen 5", "rerun 5"):
        _, shortest, *_, longest = values(report, "accuracy", variant)
        assert shortest > longest + 0.1
    up_to = values(report, "accuracy_up_to", None)
    assert up_to[-1] == pytest.approx(entire.value)
