"""Plain numbers know what they say they know, and a model is run exactly only where that is right."""

import math
from collections.abc import Callable
from typing import Any
from unittest import mock

import numpy as np
import pytest
import torch
import transformers as hf
from oracles import exact_bert
from oracles.forwards.tiny_models import FOR_ARBITRARY_PRECISION, TINY

from attncli.ablation import recognise_block_anatomy
from attncli.analysis.rank_collapse.metrics_over_layers import EXACT, Trajectory
from attncli.analysis.rank_collapse.model_variant_runs import (
    CollapseModel,
    StateLocation,
    VariantRun,
    run_model_variants_on_text,
)
from attncli.capture.reruns.perturbed_rounding import RoundingPerturbation
from attncli.commands.rank_collapse.check_exact_against_float_arithmetic import (
    are_residual_curves_equal,
    describe_residual_curve_difference,
    find_variants_without_exact_arithmetic,
    select_largest_and_smallest_variants,
)
from attncli.errors import InputError
from attncli.models.inputs.model_input import ModelInput
from attncli.models.precision import run_in_model_precision
from attncli.models.random.dummy_inputs import make_example_inputs
from attncli.models.random.random_models import build_model
from attncli.networks.ablation_variants import VARIANTS, AblationSwitches
from attncli.tensor_subclasses.residual_split import split_tensor_arithmetic as exact_rules
from attncli.tensor_subclasses.residual_split.split_tensor import RULES
from attncli.tolerances import KNOWN_NUMBER

torch.set_num_threads(1)

METRIC = "log10_residual"
SWITCHES = {**VARIANTS, "SAN-norms": AblationSwitches(skip=False, mlp=False, norms=False)}
COVERED = [
    "bert", "roberta", "electra", "distilbert", "albert", "albert-grouped", "gpt2", "gpt_neox", "llama", "mistral", "qwen2",
    "gemma3_text", "vit",
]  # fmt: skip


def subject_of(model: Any, inputs: Any, exact: bool) -> CollapseModel:
    body = model.base_model
    body.config.use_cache = False  # as every model is loaded
    with run_in_model_precision(body):
        return CollapseModel(body, recognise_block_anatomy(body, inputs), exact)


def run(subject: CollapseModel, inputs: Any, switches: AblationSwitches) -> Trajectory:
    text = ModelInput("text", "token ids", inputs, 0)
    (found,) = run_model_variants_on_text(subject, text, {"one": switches}, [METRIC], lambda: None)[
        "one"
    ].values()
    return found


def both_ways(model: Any, inputs: Any, switches: AblationSwitches) -> tuple[Trajectory, Trajectory]:
    return tuple(run(subject_of(model, inputs, exact), inputs, switches) for exact in (False, True))  # type: ignore[return-value]


def assert_known_is_true(plain: Trajectory, truth: Any) -> int:
    """Every number that is not null is within its uncertainty and within 1 %; returns how many are null."""
    values = zip(
        plain.values[METRIC], truth, plain.uncertain[METRIC], plain.unknown[METRIC], strict=True
    )
    for value, true, uncertainty, why in values:
        assert math.isnan(value) == bool(why)
        if not why:
            assert abs(value - true) <= uncertainty + 1e-5 * abs(true) + 1e-9
            assert abs(value - true) <= KNOWN_NUMBER.tolerance_for_dtype() * abs(true) + 1e-6
    return sum(map(bool, plain.unknown[METRIC]))


BY_TURNS = [
    (name, variant)
    for row, name in enumerate(each for each in COVERED if each in TINY)
    for variant in [*SWITCHES][row % 2 :: 2]
]
"""Every model in half of the variants, every variant in half of the models."""


@pytest.mark.slow
@pytest.mark.parametrize(("name", "variant"), BY_TURNS)
def test_what_plain_numbers_know_is_true(name: str, variant: str) -> None:
    plain, exact = both_ways(*TINY[name](), SWITCHES[variant])
    unknown = assert_known_is_true(plain, exact.values[METRIC])
    lost = sum(value < -15.5 for value in exact.values[METRIC])
    assert unknown >= lost
    assert (plain.arithmetic, exact.arithmetic) == ("float64", EXACT)


@pytest.mark.slow
@pytest.mark.parametrize("variant", ["SAN", "SAN+MLP"])
@pytest.mark.parametrize("name", FOR_ARBITRARY_PRECISION)
def test_what_plain_numbers_know_is_what_a_thousand_digits_say(name: str, variant: str) -> None:
    model, inputs = FOR_ARBITRARY_PRECISION[name]()
    truth = exact_bert.log10_residuals(model, inputs, SWITCHES[variant])
    plain = run(subject_of(model, inputs, exact=False), inputs, SWITCHES[variant])
    assert assert_known_is_true(plain, truth) >= sum(value < -15.5 for value in truth)


def highest_lost(size: float) -> float:
    """The largest true residual that plain numbers do not know, where a norm takes a common row of this size away."""
    torch.manual_seed(0)
    sizes = {"hidden_size": 32, "num_attention_heads": 4, "intermediate_size": 64}
    config = hf.BertConfig(vocab_size=50, num_hidden_layers=5, **sizes)
    model, inputs = hf.BertModel(config).double().eval(), {"input_ids": torch.arange(5, 21)[None]}
    with torch.no_grad():
        for block in model.encoder.layer:
            block.attention.output.dense.bias += size
    plain, exact = both_ways(model, inputs, SWITCHES["SAN"])
    truth = exact.values[METRIC]
    assert_known_is_true(plain, truth)
    return max(true for true, why in zip(truth, plain.unknown[METRIC], strict=True) if why)


@pytest.mark.slow
def test_the_floor_rises_with_the_common_row() -> None:
    """What all tokens share takes the digits of what sets them apart: no constant knows how many."""
    small, large, huge = (highest_lost(size) for size in (1.0, 1e4, 1e11))
    assert small < -15.5
    assert -12.0 < large < -8.0
    assert huge > -5.0


def test_the_two_passes_are_the_same_every_time() -> None:
    model, inputs = TINY["bert"]()
    first, second = (
        run(subject_of(model, inputs, exact=False), inputs, VARIANTS["SAN"]) for _ in "ab"
    )
    assert repr(first) == repr(second)


def test_masks_and_choices_are_not_rounded() -> None:
    """A mask that is no longer 1 would hide, or show, everything."""
    lowest = torch.finfo(torch.float64).min
    with RoundingPerturbation():
        mask = torch.tensor([0.0, 1.0, 1.0], dtype=torch.float64) * 1.0
        hiding = (1.0 - mask) * lowest
        scores = torch.full((2000,), math.pi, dtype=torch.float64) * 1.5
        scores += 1.0
        hidden = scores[:3] + hiding
    assert mask.tolist() == [0.0, 1.0, 1.0]
    assert hiding[1:].tolist() == [0.0, 0.0]
    assert hidden[0] <= lowest / 2
    assert hidden.isfinite().all()
    exactly = math.pi * 1.5 + 1.0
    assert 0.0 < (scores - exactly).abs().max() < 4e-15
    assert len(set(scores.tolist())) > 1


@pytest.mark.slow
def test_positions_are_known_whatever_is_made_of_them() -> None:
    """Distances fall into classes by their logarithm, some just at the edge of one: that is no rounding of states."""
    model = build_model("t5", {"tiny": ""}, seed=0, dtype=torch.float64)
    inputs = make_example_inputs(model, 48)
    text = ModelInput("text", "token ids", inputs, 0)
    subject = subject_of(model, inputs, exact=False)
    found = run_model_variants_on_text(
        subject, text, {"SAN": VARIANTS["SAN"]}, [METRIC], lambda: None
    )["SAN"]
    for trajectory in found.values():
        for value, uncertainty in zip(trajectory.values[METRIC], trajectory.uncertain[METRIC], strict=True):  # fmt: skip
            assert not value > -8.0 or uncertainty < 1e-6


def test_what_is_computed_from_whole_numbers_is_not_rounded_until_states_are_written_into_it() -> (
    None
):
    states = torch.full((500,), math.pi, dtype=torch.float64)
    with RoundingPerturbation():
        distances = torch.log(torch.arange(1, 501).double() / 8.0) * 1.5
        sums = torch.zeros(500, dtype=torch.float64)
        sums[:] = states
        rounded = sums * 1.5
        mixed = distances + states
    exactly = torch.log(torch.arange(1, 501).double() / 8.0) * 1.5
    assert distances.equal(exactly)
    assert len(set(rounded.tolist())) == 2
    assert not mixed.equal(exactly + states)


def test_large_numbers_of_a_coarse_type_are_rounded_though_they_are_whole() -> None:
    numbers = torch.full((1000,), 300.0, dtype=torch.bfloat16)
    with RoundingPerturbation():
        numbers = numbers * 2.0
    assert set(numbers.tolist()) == {600.0, 596.0}


# --- which variants are exact


def test_what_exact_arithmetic_loses_and_plain_numbers_know_is_a_disagreement() -> None:
    plain = Trajectory({METRIC: [-1.0]}, [], "float64", "", {METRIC: [1e-9]}, {METRIC: [""]})
    for lost in (math.nan, -math.inf, -1.001):
        exact = Trajectory({METRIC: [lost]}, [], EXACT)
        assert describe_residual_curve_difference(
            {StateLocation("encoder"): exact}, {StateLocation("encoder"): plain}
        )
    same = Trajectory({METRIC: [-1.0 + 1e-9]}, [], EXACT)
    assert not describe_residual_curve_difference(
        {StateLocation("encoder"): same}, {StateLocation("encoder"): plain}
    )


def test_a_model_with_rules_for_everything_is_exact() -> None:
    model, inputs = TINY["bert"]()
    assert (
        find_variants_without_exact_arithmetic(
            subject_of(model, inputs, exact=True), inputs, VARIANTS, True
        )
        == {}
    )


def test_a_rule_that_is_wrong_is_found_and_its_model_run_in_plain_numbers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A bias that is forgotten changes the common row, and with it what every layer does."""
    model, inputs = TINY["bert"]()
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if name.endswith("bias"):
                weight += torch.randn_like(weight)

    def without_bias(x: Any, weight: Any, bias: Any = None) -> Any:
        return exact_rules.apply_affine_map(x, exact_rules.to_float64_array(weight).T, None)

    monkeypatch.setitem(RULES, torch.nn.functional.linear, without_bias)
    reasons = find_variants_without_exact_arithmetic(
        subject_of(model, inputs, exact=True), inputs, VARIANTS, True
    )
    assert set(reasons) == set(VARIANTS)
    assert all("its code is not understood" in why for why in reasons.values())


def without_rules() -> tuple[Any, Any]:
    """ConvBERT mixes tokens by convolutions."""
    model = build_model("convbert", {"tiny": ""}, seed=0, dtype=torch.float64)
    return model, make_example_inputs(model, 12)


@pytest.mark.slow
def test_a_variant_without_rules_is_run_in_plain_numbers_and_says_why() -> None:
    model, inputs = without_rules()
    subject = subject_of(model, inputs, exact=True)
    reasons = find_variants_without_exact_arithmetic(subject, inputs, VARIANTS, True)
    assert set(reasons) == set(VARIANTS)
    text = ModelInput("text", "token ids", inputs, 0)
    auto = CollapseModel(subject.body, subject.anatomy, True, why_plain=reasons)
    for name, curves in run_model_variants_on_text(
        auto, text, VARIANTS, [METRIC], lambda: None
    ).items():
        for trajectory in curves.values():
            assert (trajectory.arithmetic, trajectory.why_plain) == ("float64", reasons[name])


def test_what_only_a_longer_text_refuses_is_run_in_plain_numbers_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(*_: Any) -> Any:
        raise InputError("exact residuals have no rule for this: leave `exact` out.")

    model, inputs = TINY["bert"]()
    subject = subject_of(model, inputs, exact=True)
    monkeypatch.setattr(VariantRun, "run_in_exact_arithmetic", refuse)
    text = ModelInput("text", "token ids", inputs, 0)
    auto = CollapseModel(subject.body, subject.anatomy, True, why_plain={})
    (found,) = run_model_variants_on_text(
        auto, text, {"SAN": VARIANTS["SAN"]}, [METRIC], lambda: None
    )["SAN"].values()
    assert found.arithmetic == "float64"
    assert found.why_plain == "exact residuals have no rule for this"
    assert np.isfinite(found.values[METRIC][0])


def passes_of(model: Any, work: Callable[[], object]) -> int:
    """How many forwards of the model the work makes."""
    passes: list[Any] = []
    handle = model.register_forward_pre_hook(lambda *_: passes.append(None))
    work()
    handle.remove()
    return len(passes)


def test_rounding_is_measured_only_where_the_two_ways_do_not_agree_without_it() -> None:
    """One exact and one plain pass of each of two variants; a second plain one where more is asked of the first."""
    model, inputs = TINY["bert"]()
    subject = subject_of(model, inputs, exact=True)
    two = {
        name: VARIANTS[name] for name in select_largest_and_smallest_variants(VARIANTS, cheap=True)
    }
    assert (
        passes_of(model, lambda: find_variants_without_exact_arithmetic(subject, inputs, two, True))
        == 4
    )
    asked = "attncli.commands.rank_collapse.check_exact_against_float_arithmetic.are_residual_curves_equal"
    with mock.patch(asked, return_value=False):
        assert (
            passes_of(
                model, lambda: find_variants_without_exact_arithmetic(subject, inputs, two, True)
            )
            == 6
        )


def test_agreement_without_an_excuse_asks_for_numbers_on_both_sides() -> None:
    place = StateLocation("encoder")
    exact = {place: Trajectory({METRIC: [-1.0]}, [], EXACT)}
    assert are_residual_curves_equal(exact, {place: {METRIC: [-1.0 + 1e-9]}})
    for other in (math.nan, -math.inf, -1.00001):
        assert not are_residual_curves_equal(exact, {place: {METRIC: [other]}})
