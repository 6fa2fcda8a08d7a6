"""Texts longer than the input of the proof: the same attentions, and spectra that equal dense ones."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from oracles.forwards.tiny_models import TINY
from torch import Tensor

from attncli.analysis.heads.forward_passes.head_observer import (
    HeadObserver,
    PassRequest,
    PassResult,
    measure_forward_pass,
)
from attncli.analysis.heads.forward_passes.uniform_attention_control import UniformAttentionControl
from attncli.analysis.heads.metric_selection import list_metrics_by_group
from attncli.capture import (
    AttentionSite,
    MapShape,
    Strip,
    capture_attention,
    emit_map_rows_while_requested,
    verify_capture,
)
from attncli.capture.model_structure.blocks import find_block_stacks
from attncli.capture.softmax_attention.softmax_and_sdpa_calls import SoftmaxCapture
from attncli.errors import InputError
from attncli.metrics.attention._map_spectrum import STILL
from attncli.models.precision import run_in_model_precision
from attncli.models.quiet_libraries import silence_libraries
from attncli.models.random.dummy_inputs import make_example_inputs
from attncli.models.random.random_models import build_model

torch.set_num_threads(1)

OFF_THE_INTERFACE = """
big_bird canine convbert deberta deberta-v2 funnel ibert lxmert mpnet nystromformer roformer squeezebert tapas xlnet
""".split()  # noqa: SIM905
ON_IT = ("gpt2", "llama", "t5")
ROUNDED = 1e-5
"""Of what is summed in float32 in the models' own code."""


def sharpened(kind: str) -> Any:
    """A tiny model in float64 whose scores are as large as those of trained ones: even maps have one singular value."""
    with silence_libraries():
        model = build_model(kind, {"tiny": ""}, seed=0, dtype=torch.float64)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if weight.dim() == 2 and "embed" not in name:
                weight.mul_(8.0)
    return model


def measured(model: Any, tokens: int, names: tuple[str, ...]) -> tuple[PassResult, dict[str, Any]]:
    """On a text, with what was proved on twelve tokens."""
    short, long = make_example_inputs(model, 12), make_example_inputs(model, tokens)
    with run_in_model_precision(model):
        shapes = verify_capture(model, short).shapes
        stacks = find_block_stacks(model, short)
    seen = measure_forward_pass(model, stacks, long, PassRequest(names), UniformAttentionControl(), "", lambda _: None, proved=shapes)  # fmt: skip
    assert list(seen.heads) == list(shapes)
    return seen, long


@contextmanager
def every_softmax() -> Iterator[list[Tensor]]:
    """The maps, as the softmaxes of the plain model give them, in order."""
    found: list[Tensor] = []
    usual = {torch: torch.softmax, Tensor: Tensor.softmax}  # which nn.functional.softmax calls

    def keeping(softmax: Callable[..., Tensor]) -> Callable[..., Tensor]:
        def run(*args: Any, **kwargs: Any) -> Tensor:
            result = softmax(*args, **kwargs)
            if result.dim() == 4:
                found.append(result.detach().clone())
            return result

        return run

    patch = pytest.MonkeyPatch()
    for place, softmax in usual.items():
        patch.setattr(place, "softmax", keeping(softmax))
    try:
        yield found
    finally:
        patch.undo()


@pytest.mark.slow
@pytest.mark.parametrize("tokens", [20, 100])
@pytest.mark.parametrize("kind", OFF_THE_INTERFACE)
def test_spectra_equal_dense_ones_and_their_notes_are_true(kind: str, tokens: int) -> None:
    model = sharpened(kind)
    seen, inputs = measured(model, tokens, ("s1", "s2_over_s1"))
    with torch.no_grad(), run_in_model_precision(model), every_softmax() as maps:
        model(**inputs)
    assert len(maps) == len(seen.heads)
    for (site, values), weights in zip(seen.heads.items(), maps, strict=True):
        true = torch.linalg.svdvals(weights.double())[..., :2].mean(0)
        s1, ratio = values["s1"], values["s2_over_s1"]
        assert isinstance(s1, Tensor)
        assert isinstance(ratio, Tensor)
        short = seen.short[site].clamp_min(STILL)
        for ours, theirs in ((s1, true[:, 0]), (s1 * ratio, true[:, 1])):
            assert (ours <= theirs * (1 + ROUNDED) + ROUNDED).all(), site
            assert (ours >= theirs * (1 - short) - ROUNDED).all(), site


@pytest.mark.slow
@pytest.mark.parametrize("group", ["attention", "spectra", "roles"])
@pytest.mark.parametrize("tokens", [20, 100])
@pytest.mark.parametrize("kind", ["mpnet", "deberta", "xlnet", *ON_IT])
def test_what_is_measured_is_what_was_proved(kind: str, tokens: int, group: str) -> None:
    model = sharpened(kind)
    names = tuple(list_metrics_by_group()[group])
    seen, _ = measured(model, tokens, names)
    for site, values in seen.heads.items():
        assert set(values) == set(names)
        for name, value in values.items():
            assert isinstance(value, str) or len(value) == model.config.num_attention_heads, (site, name)  # fmt: skip


# --- what would break it is refused


def test_an_answer_that_is_dropped_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """The map that comes next is no second round of the one before."""
    model = sharpened("mpnet")
    monkeypatch.setattr(
        SoftmaxCapture, "emit_whole_map", lambda self, strip: self.emit_map_rows(strip)
    )
    with pytest.raises(InputError, match="was to be seen once more and was not"):
        measured(model, 20, ("s1",))


def test_rounds_go_on_as_long_as_the_last_strip_is_answered_with_yes() -> None:
    strips = [Strip(torch.ones(1, 1, 1, 2) / 2, row, 0, 2, 2) for row in range(2)]
    seen: list[tuple[int, int]] = []

    def observe(strip: Strip) -> bool:
        seen.append((strip.round, strip.first_query))
        return strip.contains_last_map_row and strip.round < 2

    emit_map_rows_while_requested(lambda _: strips, observe)
    assert seen == [(number, row) for number in range(3) for row in range(2)]


def test_the_last_attention_must_come_again_too() -> None:
    observer = HeadObserver(PassRequest(("s1",)), UniformAttentionControl(), "text", lambda _: None)
    site = AttentionSite("h", 0, "self", "full", "h.0.attn")
    weights = torch.rand(1, 1, 40, 40, generator=torch.Generator().manual_seed(0))
    strip = Strip(weights / weights.sum(-1, keepdim=True), 0, 0, 40, 40)
    assert observer.observe_map_rows(site, strip)
    with pytest.raises(InputError, match=r"h.0.attn was to be seen once more"):
        observer.finish_attention_statistics()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda shapes: dict(list(shapes.items())[1:]), "and did not on the short input"),
        (lambda shapes: {site: MapShape(9, 4, 4) for site in shapes}, "heads here and had 9"),
        (lambda shapes: shapes | {AttentionSite("x", 0, "self", "full", "x.0"): MapShape(1, 4, 4)}, "x.0 attends on the short input"),
    ],
)  # fmt: skip
def test_attention_that_was_not_proved_is_refused(change: Any, said: str) -> None:
    model, inputs = TINY["bert"]()
    proved = change(dict(verify_capture(model, inputs).shapes))
    with (
        pytest.raises(InputError, match=said),
        torch.no_grad(),
        capture_attention(model, lambda *_: None, proved=proved),
    ):
        model(**inputs)
