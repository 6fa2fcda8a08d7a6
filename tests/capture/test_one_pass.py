"""Attention in one pass: equal to float64, and in every metric to what the models' own functions show."""

import ctypes
import math
import os
import signal
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import pytest
import torch
from commands import attn
from hypothesis import given, settings
from hypothesis import strategies as st
from one_pass import compiled, needs_library, one_pass
from oracles.forwards.tiny_models import TINY
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode

import attncli
from attncli.analysis.heads.forward_passes.head_observer import (
    PassRequest,
    PassResult,
    measure_forward_pass,
)
from attncli.analysis.heads.forward_passes.uniform_attention_control import UniformAttentionControl
from attncli.analysis.heads.map_export.collected_maps import CollectedMaps
from attncli.capture import STRIP_MEMORY
from attncli.capture.attention_calls import unseen
from attncli.capture.one_pass import compiled_library as library_module
from attncli.capture.one_pass import fused_attention_calls
from attncli.capture.one_pass import one_pass_checked_against_eager as attend_module
from attncli.capture.one_pass.attention_in_one_pass import (
    MapInStrips,
    Workspace,
    compute_attention_in_one_pass,
    compute_attention_in_threads,
)
from attncli.capture.one_pass.attention_score_formula import Formula
from attncli.capture.one_pass.compiled_library import (
    INSTRUCTIONS,
    Arguments,
    Library,
    NoLibrary,
    find_compiled_library,
    open_compiled_library,
)
from attncli.capture.one_pass.one_pass_checked_against_eager import FUSED_CALLS, ONE_PASS
from attncli.capture.reruns.seed_and_precision import fix_random_seed
from attncli.capture.softmax_attention.attention_interface import EagerCall
from attncli.capture.softmax_attention.map_statistics import (
    StatisticsRequest,
    request_statistics_for_metrics,
)
from attncli.capture.softmax_attention.rowwise_masks import PerMask
from attncli.capture.softmax_attention.visible_key_spans import KeySpans, find_visible_spans
from attncli.errors import NonFiniteNumbers
from attncli.metrics.attention import ATTENTION, WITHOUT_WEIGHTS
from attncli.metrics.attention._row_block_of_maps import MapStripRows
from attncli.models.random.dummy_inputs import make_example_inputs
from attncli.models.random.random_models import build_model

pytestmark = needs_library

torch.set_num_threads(1)

COVERED = tuple(
    name for name in ATTENTION.names() if ATTENTION.declaration_of_entry(name).of in WITHOUT_WEIGHTS
)
OF_ROUNDING = frozenset({"off_diagonal_rank"})
"""Of the nearly uniform maps of untrained models it sees what rounding leaves."""
MORE = tuple(name for name in ATTENTION.names() if name not in OF_ROUNDING)
"""With these, maps come in strips that have their weights."""


def some_vectors(keys: int) -> Tensor:
    return torch.randn(keys, 5, generator=torch.Generator().manual_seed(keys))


EVERYTHING = StatisticsRequest(
    columns=True,
    offsets=True,
    listed_offsets=(0, 1, 7),
    column_squares=True,
    first_vectors=some_vectors,
)


class Case:
    """One attention with random numbers, and the same in float64 by the formula."""

    def __init__(
        self,
        queries: int = 65,
        keys: int = 65,
        heads: int = 2,
        groups: int = 1,
        width: int = 8,
        value_width: int = 8,
        batch: int = 1,
        cap: float = 0.0,
        sinks: bool = False,
        bias: str = "",
        spans: str = "",
        sharp: float = 1.0,
        seed: int = 0,
    ) -> None:
        generator = torch.Generator().manual_seed(seed)

        def draw(*shape: int) -> Tensor:
            return torch.randn(*shape, generator=generator)

        self.query = sharp * draw(batch, queries, heads * groups, width).transpose(1, 2)
        self.key = draw(batch, keys, heads, width).transpose(1, 2)
        self.value = draw(batch, keys, heads, value_width).transpose(1, 2)
        self.spans = None
        mask = None
        place = torch.arange(queries)[:, None] + max(0, keys - queries)
        key = torch.arange(keys)[None, :]
        if spans:
            shown = key <= place if spans == "causal" else (key - place).abs() < 5
            shown |= key == place.clamp_max(keys - 1)
            mask = torch.zeros(queries, keys).masked_fill(~shown, torch.finfo(torch.float32).min)
            self.spans = find_visible_spans(mask[None, None], queries, keys)
        elif not bias:
            self.spans = find_visible_spans(None, queries, keys)
        else:
            shape = (batch, heads * groups) if bias == "every" else (1, 1)
            mask = 3.0 * draw(*shape, queries, keys)
            mask = mask.masked_fill(draw(*mask.shape) > 1.0, torch.finfo(torch.float32).min)
        self.mask = mask if mask is None or mask.dim() == 4 else mask[None, None]
        self.formula = Formula(width**-0.5, cap, draw(heads * groups) if sinks else None, None)

    def ours(self, library: Library | NoLibrary, request: StatisticsRequest = EVERYTHING) -> Any:
        call = EagerCall(nn.Identity(), self.query, self.key, self.value, self.mask, {})
        return compute_attention_in_one_pass(
            call, self.formula, request, library, Workspace(), self.spans
        )

    def strips(self, library: Library | NoLibrary) -> Iterator[Any]:
        call = EagerCall(nn.Identity(), self.query, self.key, self.value, self.mask, {})
        request = request_statistics_for_metrics(("logit_spread",), None)
        workspaces = (Workspace(), Workspace())
        found = MapInStrips(call, self.formula, request, library, workspaces, self.spans)
        for start in range(0, call.query_count, 33):
            yield found.compute_map_rows(start, 33)

    def largest_product(self) -> float:
        """The largest |scale · q k^T|, before any cap."""
        groups = self.query.shape[1] // self.key.shape[1]
        products = self.query @ self.key.repeat_interleave(groups, 1).transpose(-1, -2)
        return self.formula.scale * float(products.abs().max())

    def theirs(self) -> tuple[Tensor, Tensor, Tensor]:
        """Output [batch, query, head, value], weights and scores, in float64."""
        groups = self.query.shape[1] // self.key.shape[1]
        key, value = (side.double().repeat_interleave(groups, 1) for side in (self.key, self.value))
        scores = self.query.double() @ key.transpose(-1, -2) * self.formula.scale
        if self.formula.cap:
            scores = self.formula.cap * torch.tanh(scores / self.formula.cap)
        if self.mask is not None:
            scores = (scores.float() + self.mask).double()
        if self.formula.sinks is None:
            weights = scores.softmax(-1)
        else:
            more = self.formula.sinks.double()[None, :, None, None].expand(*scores.shape[:3], 1)
            weights = torch.cat([scores, more], -1).softmax(-1)[..., :-1]
        return (weights @ value).transpose(1, 2), weights, scores


def require_near(ours: Tensor, theirs: Tensor, allowed: float, what: str) -> None:
    size = max(1.0, float(theirs.nan_to_num(0.0).abs().max())) if theirs.numel() else 1.0
    ours, theirs = torch.broadcast_tensors(ours, theirs)
    assert ours.isnan().equal(theirs.isnan()), what
    far = (ours.double() - theirs).nan_to_num(0.0).abs()
    assert not far.numel() or float(far.max()) <= allowed * size, (what, float(far.max()), size)


TILES = "tiles"
"""In place of instructions: plain torch."""


def with_instructions(name: str) -> Library | NoLibrary:
    if name == TILES:
        return NoLibrary(TILES)
    found = compiled()
    if INSTRUCTIONS.index(name) > found.level:
        pytest.skip(f"this processor has no {name}")
    return found._replace(level=INSTRUCTIONS.index(name))


def require_equal(case: Case, library: Library | NoLibrary) -> None:
    """To what float32 leaves of a number, and of scores, which are off by as many ε as they are large."""
    found = case.ours(library)
    output, weights, scores = case.theirs()
    allowed = 2.0**-23 * (16.0 + 4.0 * case.largest_product())
    visible = None
    if case.mask is not None:
        shown = (case.mask > -1e30).any(dim=1, keepdim=True)
        visible = shown | ~shown.any(dim=-1, keepdim=True)
    rows = MapStripRows(weights, visible=visible)
    ours = found.statistics.make_row_statistics(True, None, None)
    require_near(found.outputs, output, allowed, "output")
    entropy = -torch.where(weights > 0, weights * weights.clamp_min(1e-300).log(), 0.0).sum(-1)
    require_near(ours.entropy, entropy, allowed, "entropy")
    require_near(ours.maximum_scores, scores.amax(-1), allowed, "maximum_scores")
    for name in (
        "row_sums",
        "largest_weights",
        "sums_of_squares",
        "weighted_distances",
        "weights_on_first_token",
    ):
        require_near(getattr(ours, name), getattr(rows, name), allowed, name)
    for offset in EVERYTHING.listed_offsets:
        require_near(
            ours.read_weights_at_offset(offset),
            rows.read_weights_at_offset(offset),
            allowed,
            f"offset {offset}",
        )
    for ours_sum, theirs_sum in zip(
        ours.sum_received_mass(), rows.sum_received_mass(), strict=True
    ):
        require_near(ours_sum, theirs_sum, allowed, "columns")
    for ours_sum, theirs_sum in zip(
        ours.sum_weights_over_diagonals()[:2], rows.sum_weights_over_diagonals()[:2], strict=True
    ):
        require_near(ours_sum, theirs_sum, allowed, "diagonals")
    require_near(
        ours.column_sums_of_squares, weights.square().sum(-2), allowed, "squares of columns"
    )
    maps, first = weights.flatten(0, 1), some_vectors(weights.shape[-1])
    chosen = [*range(len(maps) - 1, -1, -2)]
    own = first * torch.arange(1.0, 1.0 + len(chosen))[:, None, None]
    for which, vectors in ((range(len(maps)), first.expand(len(maps), -1, -1)), (chosen, own)):
        products = maps[which].transpose(1, 2) @ (maps[which] @ vectors.double())
        require_near(ours.multiply_by_gram(vectors, which), products, allowed, "products")
    edge = (weights - 1e-3).abs() < 2e-3 * allowed
    assert bool(((ours.small_weight_counts - rows.small_weight_counts).abs() <= edge.sum(-1)).all())
    shown = torch.ones(weights.shape).bool() if visible is None else visible.expand(weights.shape)
    for strip in case.strips(library):
        place = (
            *(slice(None), slice(None)),
            slice(strip.first_query, strip.first_query + strip.weights.shape[2]),
            slice(strip.first_key, strip.first_key + strip.weights.shape[3]),
        )
        require_near(strip.weights, weights[place], allowed, "weights")
        seen = shown[place]
        require_near(
            strip.scores.where(seen, 0.0), scores[place].where(seen, 0.0), allowed, "scores"
        )
        require_near(strip.outputs, output[:, place[2]], allowed, "outputs of a strip")


@pytest.mark.parametrize("instructions", [*INSTRUCTIONS, TILES])
@pytest.mark.parametrize("tokens", [1, 2, 63, 64, 65, 200])
@pytest.mark.parametrize("width", [1, 80, 576])
def test_odd_sizes_equal_float64(instructions: str, tokens: int, width: int) -> None:
    library = with_instructions(instructions)
    for heads, spans in ((1, "causal"), (3, "")):
        require_equal(Case(tokens, tokens, heads, 1, width, width, spans=spans), library)


cases = st.builds(
    Case,
    queries=st.integers(1, 150),
    keys=st.integers(1, 150),
    heads=st.integers(1, 3),
    groups=st.integers(1, 3),
    width=st.integers(1, 40),
    value_width=st.integers(1, 140),
    batch=st.integers(1, 2),
    cap=st.sampled_from([0.0, 5.0, 50.0]),
    sinks=st.booleans(),
    bias=st.sampled_from(["", "one", "every"]),
    spans=st.sampled_from(["", "causal", "window"]),
    sharp=st.sampled_from([0.1, 1.0, 20.0]),
    seed=st.integers(0, 10),
)


@pytest.mark.slow
@given(case=cases, instructions=st.sampled_from([*INSTRUCTIONS, TILES]))
@settings(max_examples=200, deadline=None)
def test_whatever_is_covered_equals_float64(case: Case, instructions: str) -> None:
    if instructions == TILES:
        require_equal(case, NoLibrary(TILES))
        return
    found = compiled()
    require_equal(case, found._replace(level=min(INSTRUCTIONS.index(instructions), found.level)))


@pytest.mark.parametrize("library", [compiled, lambda: NoLibrary(TILES)])
def test_strips_shrink_as_keys_grow(library: Callable[[], Library | NoLibrary]) -> None:
    require_equal(Case(70, 20_000, 1, 1, 4, 4), library())


def test_threads_give_the_same_bits() -> None:
    case = Case(100, 100, 3, 2, 16, 16, batch=2, spans="causal")

    def multiply(found: Any, times: float) -> Tensor:
        vectors = times * some_vectors(100).expand(12, -1, -1)
        return found.statistics.sums.multiply_by_gram(vectors, range(12))  # type: ignore[no-any-return]

    alone = case.ours(compiled())
    known, new = multiply(alone, 1.0), multiply(alone, 2.0)
    torch.set_num_threads(4)
    try:
        shared = case.ours(compiled())
        assert torch.equal(new, multiply(shared, 2.0))
    finally:
        torch.set_num_threads(1)
    assert torch.equal(alone.outputs, shared.outputs)
    for one, other in zip(alone.statistics.sums[:3], shared.statistics.sums[:3], strict=True):
        assert torch.equal(one, other)
    assert torch.equal(known, multiply(shared, 1.0))
    assert torch.equal(alone.statistics.rows.nan_to_num(), shared.statistics.rows.nan_to_num())


class Meeting:
    """Stands in for the library: its threads wait until all are there."""

    def __init__(self, threads: int) -> None:
        self.barrier = threading.Barrier(threads)
        self.present: set[int] = set()

    def compute_attention_of_maps(self, *_: object) -> None:
        self.present.add(threading.get_ident())
        self.barrier.wait()


def find_threads(count: int) -> set[int]:
    meeting: Any = Meeting(count)
    compute_attention_in_threads(meeting, Arguments(), 12, [0] * count)
    present: set[int] = meeting.present
    return present


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_threads_are_kept_and_made_anew_after_a_fork() -> None:
    alone, two, again, three = map(find_threads, (1, 2, 2, 3))
    assert alone == {threading.get_ident()}
    assert two == again
    assert (len(two), len(three)) == (2, 3)
    child = os.fork()
    if child == 0:
        signal.alarm(60)  # else threads that are there no more would be waited for for ever
        os._exit(len(find_threads(3)) != 3)
    assert os.waitpid(child, 0)[1] == 0


def test_spans_of_masks() -> None:
    """One span of zeros in each row, and the dtype's minimum or less elsewhere; whatever else is no such mask."""
    least = torch.finfo(torch.float32).min
    causal = torch.full((1, 1, 5, 5), least).triu(1)
    found = find_visible_spans(causal, 5, 5)
    assert isinstance(found, KeySpans)
    assert found.stop.tolist() == [[1, 2, 3, 4, 5]]
    assert find_visible_spans(causal.clamp_min(-10_000.0), 5, 5) is None
    assert find_visible_spans(causal.masked_fill(causal == 0, least), 5, 5) is None
    assert find_visible_spans(torch.tensor([0.0, least, 0.0]).expand(1, 1, 3, 3), 3, 3) is None
    assert find_visible_spans(causal[:, :, -1:], 9, 5) is not None


def test_what_a_mask_shows_is_read_once_until_the_mask_is_written_to() -> None:
    masks, read, mask = PerMask(), iter(range(9)), torch.zeros(3)
    assert [masks.get_cached_or_compute_for_mask(mask, read.__next__) for _ in range(2)] == [0, 0]
    assert masks.get_cached_or_compute_for_mask(mask, read.__next__, 5) == 1
    mask[0] = 1.0
    assert masks.get_cached_or_compute_for_mask(mask, read.__next__) == 2
    assert masks.get_cached_or_compute_for_mask(mask.clone(), read.__next__) == 3


def observe(
    model: Any, inputs: Any, memory: int = STRIP_MEMORY, metrics: Sequence[str] = COVERED
) -> PassResult:
    """Metrics of one forward pass; without names, every one that needs no weights one by one.

    Of those that need them also the strongest pairs of tokens, and the maps, as a metric of that name.
    """
    ids = inputs["input_ids"][0] if isinstance(inputs, dict) and "input_ids" in inputs else None
    weights = not set(COVERED).issuperset(metrics)
    wanted = PassRequest(tuple(metrics), period=8, ids=ids, pairs=3 * weights)
    maps = CollectedMaps(None, lambda layer, head: True)
    with fix_random_seed():
        found = measure_forward_pass(
            model, (), inputs, wanted, UniformAttentionControl(), "a text", lambda share: None,
            maps.accumulate_map_rows if weights else None, strip_memory=memory,
        )  # fmt: skip
    for site, values in found.heads.items():
        more = {"pairs": found.pairs[site].weights, "map": maps.maps[site]} if weights else {}
        found.heads[site] = {**values, **{name: torch.as_tensor(own) for name, own in more.items()}}
    return found


def worst_difference(first: PassResult, second: PassResult) -> float:
    """The largest difference of any number, relative to its size if that is above 1; infinite where reasons differ."""
    assert list(first.heads) == list(second.heads)
    worst = 0.0
    for one, other in ((first.heads, second.heads), (first.nulls, second.nulls)):
        for site, values in one.items():
            assert values.keys() == other[site].keys()
            for name, value in values.items():
                worst = max(worst, value_difference(value, other[site][name]))
    return worst


def value_difference(one: Tensor | str, other: Tensor | str) -> float:
    if isinstance(one, str) or isinstance(other, str):
        return 0.0 if isinstance(one, str) and one == other else math.inf
    if not one.isnan().equal(other.isnan()):
        return math.inf
    far = (one - other).abs() / one.abs().clamp_min(1.0)
    return float(far.nan_to_num(0.0).max()) if far.numel() else 0.0


def compare_paths(model: Any, inputs: Any) -> Counter[str]:
    """Require the same numbers on all paths, and that tiles cover what the library does; how many attentions took which.

    Where the model's own numbers depend on how its maps are cut into strips, which amplifies rounding, by four times that.
    """
    own = observe_own(model, inputs, MORE)
    paths = compare_paths_by(COVERED, leave_metrics(own, COVERED), model, inputs)
    more = compare_paths_by(MORE, own, model, inputs)
    assert count_one_pass(more) >= count_one_pass(paths)
    return paths


def count_one_pass(paths: Counter[str]) -> int:
    return sum(count for how, count in paths.items() if ONE_PASS in how)


def observe_own(model: Any, inputs: Any, metrics: Sequence[str]) -> PassResult:
    """What the model's own functions show."""
    with one_pass("own"):
        parts = [*model.modules()]
        own = observe(model, inputs, metrics=metrics)
        if parts != [*model.modules()]:  # BigBird exchanges modules in its first pass
            own = observe(model, inputs, metrics=metrics)
    return own


def leave_metrics(found: PassResult, metrics: Sequence[str]) -> PassResult:
    """The same with these metrics alone."""
    heads, nulls = (
        {site: {name: values[name] for name in metrics if name in values} for site, values in every.items()}
        for every in (found.heads, found.nulls)
    )  # fmt: skip
    return replace(found, heads=heads, nulls=nulls)


def compare_paths_by(
    metrics: Sequence[str], own: PassResult, model: Any, inputs: Any
) -> Counter[str]:
    found = []
    for setting in ("off", ""):
        with one_pass(setting):
            found.append(observe(model, inputs, metrics=metrics))
    apart = max(worst_difference(own, each) for each in found)
    if apart > 1e-5:
        with one_pass("own"):
            cut = observe(model, inputs, 1, metrics)
        assert apart <= 4.0 * worst_difference(own, cut)
    tiled, paths = (each.paths for each in found)
    assert sorted(tiled.values()) == sorted(paths.values())
    assert any("tiles" in how for how in tiled) == any(ONE_PASS in how for how in paths)
    return paths


KINDS = (
    *("gemma2", "gpt_oss", "granite_swa", "inkling2", "inkling_text", "mimo_v2_flash", "openai_privacy_filter"),
    *("switch_transformers", "wav2vec2-bert", "udop", "swin", "sam3", "doge", "blt", "canary", "eomt"),
    *("parakeet_ctc", "nemotron_asr_streaming", "phi4_multimodal_vision", "aimv2", "llama4", "evolla"),
    *("modernbert", "deepseek_v2", "mistral", "gemma3", "cohere2", "whisper", "layoutlm", "idefics2"),
    *("qwen3_vl", "vjepa2", "timesfm", "bigbird_pegasus", "mistral_large4", "diffllama", "t5gemma2"),
)  # fmt: skip
"""Every formula, every kind of mask and bias, and what is not covered."""


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_every_metric_is_the_one_of_the_models_own_function(kind: str) -> None:
    short = {"frames_per_clip": 4} if kind == "vjepa2" else {}
    model = build_model(kind, {"tiny": 1, **short}, 0).eval()
    compare_paths(model, make_example_inputs(model, 24))


@pytest.mark.slow
@pytest.mark.parametrize("name", TINY)
def test_tiny_models_have_the_same_metrics(name: str) -> None:
    model, inputs = TINY[name]()
    model = model.float().eval()
    given = {
        key: value.float() if value.is_floating_point() else value for key, value in inputs.items()
    }
    compare_paths(model, given)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_all_of_a_llama_is_computed_in_one_pass(dtype: torch.dtype) -> None:
    model = build_model("llama", {"tiny": 1}, 0).to(dtype).eval()
    inputs = make_example_inputs(model, 24)
    if dtype == torch.float32:
        assert [*compare_paths(model, inputs)] == [
            f"{ONE_PASS} ({compiled().instruction_set_name})"
        ]
        for layer in model.get_submodule("layers"):
            layer.self_attn.q_proj.weight.data *= 100.0
        of_rounding = tuple(OF_ROUNDING)
        compare_paths_by(of_rounding, observe_own(model, inputs, of_rounding), model, inputs)
        return
    with one_pass():
        assert [*observe(model, inputs).paths] == [
            f"{ONE_PASS} ({compiled().instruction_set_name})"
        ]


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64])
def test_what_torch_makes_by_default_does_not_matter(dtype: torch.dtype) -> None:
    """The library writes float32 into memory of its caller: half of it would not be enough."""
    case = Case(100, 100, 2, spans="causal")
    torch.set_default_dtype(dtype)
    try:
        with torch.device("meta"), unseen():
            found = case.ours(compiled())
    finally:
        torch.set_default_dtype(torch.float32)
    assert torch.equal(found.outputs, case.ours(compiled()).outputs)


def test_another_formula_is_left_to_the_models_own_function() -> None:
    """Granite's sinks scale the output alone: seen by its rows, not by names."""
    model = build_model("granite_swa", {"tiny": 1}, 0).eval()
    assert [*compare_paths(model, make_example_inputs(model, 24))] == [
        "the model's own function (another formula)"
    ]


@pytest.mark.parametrize("change", ["scale", "cap", "bias"])
def test_a_wrong_formula_is_noticed(change: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model = build_model("llama", {"tiny": 1}, 0).eval()
    inputs = make_example_inputs(model, 24)
    own = attend_module.read_attention_score_formula

    def wrong(call: EagerCall) -> Formula:
        found = own(call)
        if change == "scale":
            return found._replace(scale=found.scale * 1.01)
        if change == "cap":
            return found._replace(cap=0.5)
        bias = torch.zeros(1, 1, call.query_count, call.key_count)
        bias[..., -1, 0] = 0.1
        return found._replace(bias=bias)

    monkeypatch.setattr(attend_module, "read_attention_score_formula", wrong)
    assert ONE_PASS not in " ".join(compare_paths(model, inputs))


@pytest.mark.parametrize("number", [math.nan, math.inf])
def test_what_is_not_finite_is_refused_alike(number: float) -> None:
    model = build_model("llama", {"tiny": 1}, 0).eval()
    inputs = make_example_inputs(model, 24)
    with torch.no_grad():
        model.get_parameter("layers.1.self_attn.k_proj.weight")[0, 0] = number
    said = []
    for setting in ("own", "off", ""):
        with one_pass(setting), pytest.raises(NonFiniteNumbers) as error:
            observe(model, inputs)
        said.append(str(error.value))
    assert said[0] == said[1] == said[2]


@pytest.mark.slow
def test_padding_and_fully_masked_rows_are_the_same() -> None:
    model = build_model("llama", {"tiny": 1}, 0).eval()
    inputs = dict(make_example_inputs(model, 24))
    for side in (slice(0, 5), slice(-5, None)):
        mask = torch.ones_like(inputs["input_ids"])
        mask[:, side] = 0
        compare_paths(model, {**inputs, "attention_mask": mask})


def test_short_inputs_are_left_to_the_models_own_function() -> None:
    model = build_model("llama", {"tiny": 1}, 0).eval()
    inputs = make_example_inputs(model, 24)
    with one_pass(fewest_cells=2**16):
        assert [*observe(model, inputs).paths] == ["the model's own function (short inputs)"]


def test_the_environment_turns_it_off(monkeypatch: pytest.MonkeyPatch) -> None:
    for setting in ("off", "own"):
        with one_pass(setting):
            assert find_compiled_library() == NoLibrary(
                f"ATTN_KERNEL={setting}", own=setting == "own"
            )
    with one_pass():
        monkeypatch.setenv("ATTN_KERNEL", "plain")
        found = find_compiled_library()
        assert isinstance(found, Library)
        assert found.instruction_set_name == "plain"


def test_a_library_of_another_version_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """It would take one argument for another."""

    class More(Arguments):
        _fields_ = (("more", ctypes.c_int64),)

    monkeypatch.setattr(library_module, "Arguments", More)
    found = open_compiled_library(compiled().functions._name)
    assert found == NoLibrary("one-pass library built from another version")


@pytest.mark.parametrize("built", [True, False])
def test_which_path_runs_is_said(built: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """By `--version --verbose` before a run, and by a report's environment after it, in the same words."""
    words = f"one pass ({compiled().instruction_set_name})"
    model = build_model("llama", {"tiny": 1}, 0)
    inputs = make_example_inputs(model, 24)
    with one_pass():
        if not built:
            words = "tiles in plain torch (one-pass library not built)"
            no_library = NoLibrary("one-pass library not built")
            monkeypatch.setattr(library_module, "load_compiled_library", lambda: no_library)
        said = attn("--version", "--verbose").out
        report = attncli.inspect_model(model, inputs=inputs, metric="entropy")
    layers = model.config.num_hidden_layers
    assert said == f"attn {attncli.__version__}\nattention: {words}\n"
    assert report.environment["attention"] == f"{words}, {layers} of {layers}"


FROM_FUSED = ("entropy", "effective_support", "participation", "virtual_sink", "rest_share", "self_attention", "previous_token", "duplicate_token", "induction")  # fmt: skip
SERVED = StatisticsRequest(
    False, False, (0, 1, 7), ("row_sums", "entropy", "sums_of_squares", "weights_on_first_token")
)


@pytest.mark.parametrize("spans", ["causal", ""])
def test_fused_calls_equal_float64(spans: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the CPU's fused function; GPUs have another one that gives the same two things."""
    monkeypatch.setitem(
        fused_attention_calls.FUSED_BY_DEVICE, "cpu", fused_attention_calls.attend_on_cpu
    )
    case = Case(100, 100, 2, 3, 16, 16, batch=2, spans=spans, sharp=3.0)
    output, weights, _ = case.theirs()
    found = case.ours(compiled(), SERVED)
    ours = found.statistics.make_row_statistics(100, True, None, None)
    rows = MapStripRows(weights, visible=None if case.mask is None else case.mask > -1e30)
    require_near(found.outputs, output, 1e-5, "output")
    for name in SERVED.rows:
        require_near(getattr(ours, name), getattr(rows, name), 1e-5, name)
    for offset in SERVED.listed_offsets:
        require_near(
            ours.read_weights_at_offset(offset),
            rows.read_weights_at_offset(offset),
            1e-5,
            f"offset {offset}",
        )


@pytest.mark.parametrize("kind", ["llama", "bert", "gemma2"])
def test_fused_calls_serve_what_they_can(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """gemma2 caps its scores: the model's own function computes those."""
    model = build_model(kind, {"tiny": 1}, 0).eval()
    inputs = make_example_inputs(model, 24)
    with one_pass("own"):
        own = observe(model, inputs, metrics=FROM_FUSED)
    monkeypatch.setitem(
        fused_attention_calls.FUSED_BY_DEVICE, "cpu", fused_attention_calls.attend_on_cpu
    )
    with one_pass():
        found, most = observe(model, inputs, metrics=FROM_FUSED), observe(model, inputs)
    assert worst_difference(own, found) <= 1e-5
    assert ([*found.paths] == [FUSED_CALLS]) == (kind != "gemma2")
    assert FUSED_CALLS not in most.paths


def test_a_wrong_fused_function_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    def attend_wrongly(*sides: Any) -> tuple[Tensor, Tensor]:
        output, total = fused_attention_calls.attend_on_cpu(*sides)
        return output, total + 1e-3

    monkeypatch.setitem(fused_attention_calls.FUSED_BY_DEVICE, "cpu", attend_wrongly)
    model = build_model("llama", {"tiny": 1}, 0).eval()
    with one_pass():
        found = observe(model, make_example_inputs(model, 24), metrics=FROM_FUSED)
    assert [*found.paths] == ["the model's own function (another formula)"]


def test_the_fused_function_of_gpus_takes_and_gives_what_is_expected(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """By tensors that have sizes and no numbers, as no GPU is here."""
    monkeypatch.setitem(
        fused_attention_calls.FUSED_BY_DEVICE, "cpu", fused_attention_calls.attend_on_cuda
    )
    query, key, value = (torch.empty(1, heads, 70, 16) for heads in (4, 2, 2))
    with FakeTensorMode() as mode:
        call = EagerCall(nn.Identity(), *map(mode.from_tensor, (query, key, value)), None, {})
        formula = Formula(0.25, 0.0, None, None)
        found = fused_attention_calls.attend_in_fused_calls(call, formula, SERVED, causal=True)
    assert found.output.shape == (1, 70, 4, 16)
    assert found.rows.shape[1:] == (1, 4, 70)
