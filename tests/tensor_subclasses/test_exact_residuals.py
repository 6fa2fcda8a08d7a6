"""Residuals carried apart through model code: right below the float floor, and the same as subtraction above it."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import mpmath
import numpy as np
import pytest
import torch
import torch.nn.functional as F
from commands import attn
from oracles import exact_bert, precise_code
from oracles.forwards.tiny_models import FOR_ARBITRARY_PRECISION, TINY
from torch import nn

from attncli.ablation import recognise_block_anatomy
from attncli.analysis.rank_collapse.model_variant_runs import (
    CollapseModel,
    run_model_variants_on_text,
)
from attncli.errors import NoExactRule
from attncli.maths.common_row_arithmetic.arrays_with_integer_exponent import make_scaled_array
from attncli.maths.common_row_arithmetic.common_row_plus_deviation import SplitParts
from attncli.models.inputs.model_input import ModelInput
from attncli.models.precision import run_in_model_precision
from attncli.models.quiet_libraries import silence_libraries
from attncli.models.random.dummy_inputs import make_example_inputs
from attncli.models.random.random_models import build_model
from attncli.networks.ablation_variants import VARIANTS, AblationSwitches
from attncli.tensor_subclasses.residual_split import gelu_and_erf, split_tensor_shape_functions
from attncli.tensor_subclasses.residual_split.handwritten_norm_layers import recognise_norm_layer
from attncli.tensor_subclasses.residual_split.split_tensor import (
    SplitTensor,
    make_split_tensor_from_states,
)
from attncli.tensor_subclasses.residual_split.split_tensor_forward import (
    OtherStackDependency,
    SplitTensorRun,
    accept_split_tensors,
    run_forward_to_last_layer_stack,
)

torch.set_num_threads(1)

METRIC = "log10_residual"
NO_NORMS = AblationSwitches(skip=False, mlp=False, norms=False)
NORM_STAYS = AblationSwitches(skip=False, mlp=False, mlp_norm=True)
SWITCHES = {**VARIANTS, "SAN-norms": NO_NORMS, "SAN+mlp-norm": NORM_STAYS}


def curves(
    model: Any, inputs: Any, switches: AblationSwitches, exact: bool
) -> np.ndarray[Any, Any]:
    """log10 r at states 0 … L."""
    body = model.base_model
    body.config.use_cache = False  # as every model is loaded
    with run_in_model_precision(body):
        anatomy = recognise_block_anatomy(body, inputs)
    text = ModelInput("text", "token ids", inputs, 0)
    found = run_model_variants_on_text(
        CollapseModel(body, anatomy, exact), text, {"one": switches}, [METRIC], lambda: None
    )
    (trajectory,) = found["one"].values()
    return np.array(trajectory.values[METRIC])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "variant"),
    [
        (name, variant)
        for turn, name in enumerate(FOR_ARBITRARY_PRECISION)
        for variant in ("SAN", "SAN+MLP", "SAN+MLP-noskip", "transformer")[turn % 2 :: 2]
    ],
)
def test_equals_arbitrary_precision_at_every_layer(name: str, variant: str) -> None:
    model, inputs = FOR_ARBITRARY_PRECISION[name]()
    expected = np.array(exact_bert.log10_residuals(model, inputs, SWITCHES[variant]))
    found = curves(model, inputs, SWITCHES[variant], exact=True)
    assert np.abs(found / expected - 1.0).max() < 1e-5
    if name != "gpt2" and variant != "transformer":
        assert expected[-1] < -100  # far below what subtraction can see


COVERED = [
    "bert", "roberta", "electra", "distilbert", "albert", "albert-grouped", "gpt2", "gpt_neox", "llama", "mistral", "qwen2",
    "gemma3_text", "gemma4", "vit",
]  # fmt: skip


BY_TURNS = [
    (name, variant)
    for row, name in enumerate(each for each in COVERED if each in TINY)
    for variant in [*SWITCHES][row % 2 :: 2]
]
"""Every model in half of the variants, every variant in half of the models."""


@pytest.mark.slow
@pytest.mark.parametrize(("name", "variant"), BY_TURNS)
def test_equals_subtraction_where_that_has_digits(name: str, variant: str) -> None:
    model, inputs = TINY[name]()
    subtracted = curves(model, inputs, SWITCHES[variant], exact=False)
    found = curves(model, inputs, SWITCHES[variant], exact=True)
    resolved = subtracted > -10
    assert resolved[0]
    assert np.abs(found - subtracted)[resolved].max() < 1e-5
    assert np.isfinite(found).all()
    assert (found[~resolved] < -9.9).all()


DEEP: Mapping[str, tuple[str, str, Mapping[str, str], float]] = {
    "relative positions added to the scores": ("mpnet", "SAN", {"layers": "9"}, -17),
    "relative positions of an encoder, cross-attention of a decoder": ("t5", "SAN", {"layers": "8"}, -30),
    "positions that meet contents": (
        "deberta-v2", "SAN", {"layers": "5", "relative_attention": "true", "pos_att_type": "c2p|p2c"}, -18,
    ),
    "shifted relative positions": ("xlnet", "SAN", {"layers": "9"}, -17),
    "bidirectional rotary positions": ("roformer", "SAN", {"layers": "8"}, -18),
    "cross-attention": ("bart", "SAN", {"layers": "3"}, -100),
    "cross-attention under a soft cap": ("t5gemma", "SAN", {"layers": "3"}, -30),
    "a layer norm written by hand": ("cohere", "SAN+MLP", {"layers": "4"}, 0),
    "experts": ("mixtral", "SAN+MLP", {"layers": "4"}, 0),
}  # fmt: skip
"""Mechanism: model type, variant, sizes, and log10 r that its last layer goes below (0: it need not collapse)."""


def tiny_of(kind: str, sizes: Mapping[str, str], tokens: int = 7) -> tuple[Any, dict[str, Any]]:
    """A small random model of a type, in float64, with the beginning of its example input."""
    with silence_libraries():
        model = build_model(
            kind, {"tiny": "", "width": "16", "heads": "2", **sizes}, 0, torch.float64
        )
        inputs = {name: value[:, :tokens] for name, value in make_example_inputs(model).items()}
    model.config.use_cache = False
    return model, inputs


def both(
    model: Any, inputs: Any, switches: AblationSwitches, digits: int
) -> Iterator[tuple[str, Any, Any]]:
    """For each stack the residuals carried apart, and those of the same code in so many digits."""
    with run_in_model_precision(model):
        anatomy = recognise_block_anatomy(model, inputs)
        expected = precise_code.residuals(model, anatomy, inputs, switches, digits)
    text = ModelInput("text", "token ids", inputs, 0)
    found = run_model_variants_on_text(
        CollapseModel(model, anatomy, True), text, {"one": switches}, [METRIC], lambda: None
    )
    for place, curve in found["one"].items():
        yield place.stack, np.array(curve.values[METRIC]), np.array(expected[place.stack])


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", DEEP)
def test_the_models_own_code_in_arbitrary_precision_agrees(mechanism: str) -> None:
    """Six digits of a residual are what a result must have left to count as resolved: 1e-6 in log10 r."""
    kind, variant, sizes, below = DEEP[mechanism]
    model, inputs = tiny_of(kind, sizes)
    lowest = 0.0
    for _, found, expected in both(model, inputs, VARIANTS[variant], digits=300):
        assert np.isfinite(expected).all()
        assert np.abs(found - expected).max() < 1e-6
        lowest = min(lowest, expected[-1])
    assert lowest < below or below == 0


@pytest.mark.slow
def test_sinks_that_take_next_to_nothing_are_carried_too() -> None:
    """What such a sink takes differs from token to token by 1e-26: it is all that is left once contents have collapsed."""
    model, inputs = tiny_of("gpt_oss", {"layers": "14"})
    for name, parameter in model.named_parameters():
        if name.endswith("sinks"):
            parameter.data.fill_(-60.0)
    ((_, found, expected),) = both(model, inputs, VARIANTS["SAN"], digits=200)
    assert np.abs(found - expected).max() < 1e-6


def test_norms_by_hand_are_told_apart_by_what_they_compute() -> None:
    class LayerNormByHand(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.linspace(0.5, 2.0, 6, dtype=torch.float64))
            self.bias = nn.Parameter(torch.linspace(-1.0, 1.0, 6, dtype=torch.float64))
            self.eps = 1e-3

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            rest = x - x.mean(-1, keepdim=True)
            return (
                self.weight * rest / torch.sqrt(x.var(-1, unbiased=False, keepdim=True) + self.eps)
                + self.bias
            )

    module = LayerNormByHand()
    found = recognise_norm_layer(module, module.forward, 6)
    assert found is not None
    assert (found.epsilon, found.centre) == (1e-3, True)
    assert found.gain is module.weight
    assert found.bias is module.bias
    module.eps = 1e-9
    module.epsilon = module.eps
    assert (
        recognise_norm_layer(
            module, lambda x: F.layer_norm(x, [6], module.weight, module.bias, 1e-3), 6
        )
        is None
    )


def stream(tokens: int = 5, width: int = 4) -> SplitTensor:
    numbers = torch.randn(
        1, tokens, width, generator=torch.Generator().manual_seed(0), dtype=torch.float64
    )
    return make_split_tensor_from_states(numbers, axis=1)


def test_changes_in_place_are_seen_by_aliases() -> None:
    x = stream()
    before, version = x.to_plain_tensor(), x._version
    alias = x.view_as(x)
    assert x.add_(stream()) is x
    assert torch.allclose(alias.to_plain_tensor(), 2 * before, rtol=1e-15)
    assert x._version > version
    x += 1.0
    assert torch.allclose(alias.to_plain_tensor(), 2 * before + 1, rtol=1e-15)


def test_a_change_that_a_view_would_have_to_see_is_refused_by_its_reason() -> None:
    x = stream()
    turned = x.transpose(1, 2)
    with pytest.raises(
        NoExactRule, match=r"add_, which changes in place what other views .* leave `exact` out"
    ):
        x.add_(1.0)
    del turned
    x.add_(1.0)


def test_what_is_computed_later_sees_the_numbers_of_now() -> None:
    x = stream()
    scores = torch.matmul(x, x.transpose(1, 2))
    wanted = scores.materialize_tensor()
    x.mul_(3.0)
    assert torch.equal(scores.materialize_tensor(), wanted)


@pytest.mark.parametrize(
    "function",
    [
        F.gelu,
        lambda x: x * x,
        lambda x: x + x,
        lambda x: F.linear(x, torch.eye(4)),
        lambda x: F.layer_norm(x, [4]),
    ],
)
def test_what_is_deferred_is_of_the_numbers_of_now(function: Any) -> None:
    x, factor = stream(), torch.full((4,), 2.0, dtype=torch.float64)
    wanted, found, scaled = function(x).to_plain_tensor(), function(x), x * factor
    doubled = x.to_plain_tensor() * 2.0
    x.mul_(3.0)  # no view, so that it need not be refused
    factor.zero_()
    assert torch.equal(found.to_plain_tensor(), wanted)
    assert torch.equal(scaled.to_plain_tensor(), doubled)


@pytest.mark.parametrize("function", [F.gelu, F.silu, torch.tanh, torch.erf, lambda x: x * x])
def test_slices_of_tokens_are_put_together(monkeypatch: pytest.MonkeyPatch, function: Any) -> None:
    """Each slice has a magnitude of its own."""
    x = stream(40)
    x = torch.mul(x, torch.logspace(0, -9, 40, dtype=torch.float64)[:, None])
    wanted = function(x)
    assert torch.allclose(
        wanted.to_plain_tensor(), function(x.to_plain_tensor()), rtol=1e-13, atol=1e-15
    )
    whole = wanted.varying.value()
    monkeypatch.setattr(split_tensor_shape_functions, "ELEMENTS", 8)
    assert np.allclose(function(x).varying.value(), whole, rtol=1e-13, atol=1e-17)


def test_what_a_variant_drops_is_not_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> Any:
        raise AssertionError("it is computed")

    model, inputs = TINY["bert"]()
    wanted = curves(model, inputs, VARIANTS["SAN+skip"], exact=True)
    monkeypatch.setattr(gelu_and_erf, "gelu", refuse)
    assert (curves(model, inputs, VARIANTS["SAN+skip"], exact=True) == wanted).all()
    with pytest.raises(AssertionError, match="it is computed"):
        curves(model, inputs, VARIANTS["transformer"], exact=True)


@pytest.mark.parametrize("scale", [1.0, 1e-2, 1e-3, 1e-9, 2.0**-3000])
@pytest.mark.parametrize("name", ["gelu", "erf"])
def test_differences_by_the_error_function_have_all_their_digits(name: str, scale: float) -> None:
    """At common rows up to where the density underflows; the digits beside r's own that |r| (1 + |a|) ~ .01 leaves are 13."""
    exponent = -3000 if scale == 0.0 else 0
    generator = np.random.default_rng(0)
    a = generator.standard_normal(24) * np.repeat([1.0, 3.0, 12.0], 8)
    r = generator.standard_normal((6, 24)) * (scale or 1.0)
    varying = make_scaled_array(r, exponent)
    found = getattr(gelu_and_erf, name)(SplitParts(make_scaled_array(a[None]), varying), 0).varying
    with mpmath.workdps(1000 if scale == 0.0 else 60):
        function = {"gelu": lambda x: x * mpmath.ncdf(x), "erf": mpmath.erf}[name]
        for (token, feature), step in np.ndenumerate(varying.mantissa):
            start, moved = mpmath.mpf(a[feature]), mpmath.ldexp(step, varying.exponent)
            true = function(start + moved) - function(start)
            ours = mpmath.ldexp(found.mantissa[token, feature], found.exponent)
            assert abs(ours - true) < 2e-12 * abs(moved)


@pytest.mark.parametrize("name", ["unique_consecutive", "fft_fft", "histc"])
def test_a_refusal_names_the_function_and_says_what_to_do(name: str) -> None:
    function = getattr(torch, name, torch.fft.fft)
    with pytest.raises(NoExactRule, match=r"no rule for \w+ of the stream .*: leave `exact` out"):
        function(stream())


@pytest.mark.slow
def test_a_stack_of_shared_blocks_starts_at_its_own_run() -> None:
    """The same blocks run once for each frame: every run is a stack with states of its own."""
    with silence_libraries():
        model = build_model("videomt", {"tiny": ""}, 0, torch.float64)
        inputs = dict(make_example_inputs(model))
    with run_in_model_precision(model):
        anatomy = recognise_block_anatomy(model, inputs)
    text = ModelInput("text", "pixels", inputs, 0)
    everything = {"one": VARIANTS["transformer"]}
    subtracted, exact = (
        run_model_variants_on_text(
            CollapseModel(model, anatomy, how), text, everything, [METRIC], lambda: None
        )["one"]
        for how in (False, True)
    )
    assert len(exact) > 1
    for place, curve in exact.items():
        assert curve.values[METRIC] == pytest.approx(subtracted[place].values[METRIC], abs=1e-6)


def test_an_eager_function_of_its_own_is_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A model whose eager function scales its logits once more is computed as it is written."""
    from transformers.models.bert import modeling_bert

    usual = modeling_bert.eager_attention_forward

    def sharper(module: Any, query: Any, key: Any, value: Any, mask: Any, **how: Any) -> Any:
        return usual(module, query * 1.5, key, value, mask, **how)

    model, inputs = TINY["bert"]()
    model.config._attn_implementation = "eager"
    as_it_was = curves(model, inputs, VARIANTS["SAN"], exact=True)
    monkeypatch.setattr(modeling_bert, "eager_attention_forward", sharper)
    found = curves(model, inputs, VARIANTS["SAN"], exact=True)
    assert found == pytest.approx(curves(model, inputs, VARIANTS["SAN"], exact=False), abs=1e-6)
    assert abs(found - as_it_was).max() > 0.01


@pytest.mark.parametrize("exact", [("--exact",), ()])
@pytest.mark.parametrize("config", [{"n_head": -2}, {"n_head": -1}])
def test_sizes_that_no_model_has_are_the_configs_fault(
    config: Mapping[str, int], exact: tuple[str, ...], tmp_path: Path
) -> None:
    model, _ = TINY["gpt2"]()
    model.save_pretrained(tmp_path)
    said = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(said | config))
    done = attn("rank-collapse", str(tmp_path), "--random-tokens", "8", *exact)
    assert done.code == 3
    assert "config" in done.err
    assert "bug" not in done.err


def opened(kind: str, sizes: Mapping[str, str]) -> tuple[CollapseModel, ModelInput]:
    """A small model in exact arithmetic, and what it reads."""
    with silence_libraries():
        model = build_model(kind, {"tiny": "", **sizes}, 0, torch.float64)
        inputs = dict(make_example_inputs(model))
    model.config.use_cache = False
    with run_in_model_precision(model):
        return CollapseModel(model, recognise_block_anatomy(model, inputs), True), ModelInput("text", "", inputs, 0)  # fmt: skip


def test_a_decoder_is_given_what_is_left_of_a_collapsed_encoder() -> None:
    """What cross-attention makes of its keys' and of its values' residual is of second order, some 400 digits down."""
    subject, text = opened("bart", {"layers": "5"})
    found = run_model_variants_on_text(
        subject, text, {"one": VARIANTS["SAN"]}, [METRIC], lambda: None, True
    )["one"]
    curves_ = {(place.stack, place.after): curve.values[METRIC] for place, curve in found.items()}
    last = curves_["encoder", ""][-1]
    assert last < -190
    assert curves_["decoder", ""][1] == pytest.approx(2 * last, abs=5)
    assert curves_["encoder", "attention"][1:] == pytest.approx(curves_["encoder", ""][1:], abs=2)


@pytest.mark.parametrize(("kind", "takes"), [("bart", [False, True]), ("clip", [False, False])])
def test_a_stack_of_its_own_takes_nothing_of_others(kind: str, takes: list[bool]) -> None:
    subject, text = opened(kind, {})
    found = []
    with torch.no_grad(), run_in_model_precision(subject.body), accept_split_tensors(subject.body):
        for stack in subject.stacks:
            passage = SplitTensorRun((stack,), subject.stacks, lambda *_: None)
            try:
                run_forward_to_last_layer_stack(subject.body, text.kwargs, passage)
                found.append(False)
            except OtherStackDependency:
                found.append(True)
    assert found == takes


def test_all_stacks_run_in_one_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    subject, text = opened("bart", {})
    passes = []
    usual = subject.body.forward
    monkeypatch.setattr(
        subject.body, "forward", lambda *a, **k: (passes.append(1), usual(*a, **k))[1]
    )
    run_model_variants_on_text(subject, text, {"one": VARIANTS["SAN"]}, [METRIC], lambda: None)
    assert len(passes) == 1


def test_a_limit_that_limits_nothing_is_followed_by_exact_residuals_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whether it has left every number what it was is asked of a carried tensor, which answers by its own rule."""
    from transformers.models.bert.modeling_bert import BertOutput

    model = build_model("bert", {"tiny": ""}, seed=0, dtype=torch.float64)
    inputs = {"input_ids": torch.tensor([[5, 9, 2, 7]])}
    before = curves(model, inputs, AblationSwitches(skip=False), exact=True)
    forward = BertOutput.forward
    monkeypatch.setattr(BertOutput, "forward", lambda self, x, stream: forward(self, x, stream.clamp(-1e6, 1e6)))  # fmt: skip
    assert (curves(model, inputs, AblationSwitches(skip=False), exact=True) == before).all()
