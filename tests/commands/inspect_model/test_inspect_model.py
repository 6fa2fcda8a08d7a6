"""`inspect-model`: equal to hand-written maps, true roles of heads that are built, nulls that are nulls."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers as hf
from hand_built import ROLES, hand_built
from oracles.forwards import ORACLES
from oracles.forwards.tiny_models import TINY
from torch import Tensor
from warm import Warm, environment

from attncli.analysis.heads.classification.role_rules import INDUCTION, MIXED, SINK, classify_role
from attncli.analysis.heads.forward_passes.head_observer import (
    HeadObserver,
    PassRequest,
    PassResult,
    measure_forward_pass,
)
from attncli.analysis.heads.forward_passes.uniform_attention_control import UniformAttentionControl
from attncli.analysis.heads.metric_selection import DEFAULT_HEADS, choose_metrics
from attncli.analysis.heads.model_inspection import HeadPlan, inspect_model
from attncli.analysis.load_and_verify_model import PreparedModel
from attncli.capture import AttentionSite, verify_capture
from attncli.capture.model_structure.blocks import find_block_stacks
from attncli.errors import InputError
from attncli.metrics.attention import ATTENTION, is_metric_of_map_alone
from attncli.metrics.attention._metric_accumulator import measure_maps
from attncli.models.inputs.model_input import ModelInput
from attncli.models.inputs.synthetic_texts import make_repeated_tokens, shuffle_tokens
from attncli.models.loading.loaded_model import LoadedModel
from attncli.models.loading.random_init import make_random_init_model
from attncli.records import Report, Row

torch.set_num_threads(1)

ON_MAPS = tuple(
    name
    for name in ATTENTION.names()
    if is_metric_of_map_alone(name) and "scores" not in ATTENTION.declaration_of_entry(name).needs
)
"""What whole maps show without the run that made them."""
ONE_ROW, EVERYTHING = 1, 2**25


def seen_of(model: Any, inputs: Any, names: tuple[str, ...] = ON_MAPS, **how: Any) -> PassResult:
    stacks = find_block_stacks(model, inputs)
    memory = how.pop("memory", EVERYTHING)
    wanted = PassRequest(names, **how)
    return measure_forward_pass(
        model,
        stacks,
        inputs,
        wanted,
        UniformAttentionControl(),
        "",
        lambda share: None,
        strip_memory=memory,
    )


def oracle_maps(model: Any, inputs: Any) -> dict[tuple[str, int], Tensor]:
    """[head, query, key] by stack ("cross" for that between stacks) and layer."""
    found = ORACLES[model.config.model_type].attention_maps(model, inputs)
    return {
        (stack, layer): torch.from_numpy(weights)
        for stack, maps in found.items()
        for layer, weights in enumerate(maps)
    }


def stack_of(site: AttentionSite, stacks: set[str]) -> str:
    """As the oracles call it."""
    own = site.stack.removesuffix(".layers")
    if site.kind == "cross" or own in stacks:
        return "cross" if site.kind == "cross" else own
    if len(stacks) == 1:
        return next(iter(stacks))
    return "encoder" if "encoder" in site.stack else "decoder"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "memory"),
    [
        (name, (ONE_ROW, EVERYTHING)[turn % 2])
        for turn, name in enumerate(name for name in TINY if name != "xlnet-two-streams")
    ],
)
def test_heads_of_all_architectures_equal_hand_written_float64_passes(
    name: str, memory: int
) -> None:
    """Every metric of every head to 1e-5; what does not apply, for the same reason."""
    model, inputs = TINY[name]()
    expected = oracle_maps(model, inputs)
    seen = seen_of(model, inputs, memory=memory)
    stacks = {stack for stack, _ in expected}
    heads = {site: found for site, found in seen.heads.items() if ".head." not in site.name}
    assert len(heads) == len(expected)  # SigLIP's head is in no stack
    places: Counter[str] = Counter()  # a hybrid's layers without attention have no map
    for site, values in sorted(heads.items(), key=lambda found: found[0].layer):
        stack = stack_of(site, stacks)
        weights = expected[stack, places[stack]]
        places[stack] += 1
        same = site.kind == "self"
        dense = measure_maps(weights[None], ON_MAPS, visible=visible(weights), same_tokens=same)
        for metric in ON_MAPS:
            compare(values[metric], dense[metric], f"{site} {metric}")


def visible(weights: Tensor) -> Tensor:
    """In float64 only what is masked is exactly zero."""
    return (weights > 0).any(0)[None, None]


def compare(ours: Any, theirs: Any, where: str) -> None:
    if isinstance(theirs, str):
        assert ours == theirs, where
    else:
        assert torch.allclose(ours, theirs, rtol=1e-5, atol=1e-7), where


def test_learned_sinks_and_windows_are_counted_as_they_are() -> None:
    """gpt-oss: rows below one, a window that hides token 0; against the library's own eager maps."""
    torch.manual_seed(0)
    config = hf.GptOssConfig(
        vocab_size=50,
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=8,
        intermediate_size=24,
        num_local_experts=2,
        num_experts_per_tok=1,
        sliding_window=4,
        attn_implementation="eager",
    )
    model, inputs = hf.GptOssModel(config).eval(), {"input_ids": torch.arange(5, 14)[None]}
    seen = seen_of(model, inputs, (*ON_MAPS, "head_contribution"))
    with torch.no_grad():
        maps = model(**inputs, output_attentions=True).attentions
    assert [site.span for site in seen.heads] == ["sliding", "full"]
    for (_site, values), weights in zip(seen.heads.items(), maps, strict=True):
        dense = measure_maps(weights, ON_MAPS, visible=visible(weights[0]))
        for metric in ON_MAPS:
            compare(values[metric], dense[metric], metric)
        assert 0.05 < float(values["virtual_sink"].min()) < 0.95  # type: ignore[union-attr]
        assert len(values["head_contribution"]) == 4
    sliding, full = seen.nulls.values()
    assert float(sliding["distance"][0]) == pytest.approx(sum(min(i, 3) / 2 for i in range(9)) / 9)  # type: ignore[arg-type]
    assert float(full["distance"][0]) == pytest.approx(2.0)  # type: ignore[arg-type]


def test_contributions_add_up_to_what_the_attention_writes() -> None:
    """The layer that is found is the one that writes: Σ_h ctx_h W_O,h + b is its output."""
    from attncli.capture import capture_attention
    from attncli.capture.softmax_attention.attention_output_projections import (
        observe_output_projections,
    )

    for name, outputs in (("gpt2", "h.1.attn.c_proj"), ("bert", "encoder.layer.1.attention.output.dense"), ("llama", "layers.1.self_attn.o_proj"), ("whisper", "decoder.layers.1.encoder_attn.out_proj")):  # fmt: skip
        model, inputs = TINY[name]()
        written: list[Tensor] = []
        found: dict[str, Tensor] = {}
        layer = model.get_submodule(outputs)
        handle = layer.register_forward_hook(lambda _, __, out, kept=written: kept.append(out))

        def observe(
            site: AttentionSite,
            context: Tensor,
            projection: Tensor,
            kept: dict[str, Tensor] = found,
        ) -> None:
            kept[site.name] = torch.einsum("bqhv,hvf->bqf", context, projection)

        with (
            torch.no_grad(),
            observe_output_projections(model, observe) as take,
            capture_attention(model, take, ONE_ROW),  # type: ignore[arg-type]
        ):
            model(**inputs)
        handle.remove()
        attention = next(name for name in found if outputs.startswith(name.removesuffix(".self")))
        bias = 0.0 if layer.bias is None else layer.bias
        assert torch.allclose(found[attention] + bias, written[0], rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("wrong", [torch.nan, torch.inf])
def test_states_that_are_not_finite_are_refused_with_their_place(wrong: float) -> None:
    observer = HeadObserver(PassRequest(), UniformAttentionControl(), "text 1", lambda share: None)
    state = torch.ones(1, 3, 4)
    state[0, 1, 2] = wrong
    with pytest.raises(InputError, match="text 1: the state after layer 2 of h is not finite"):
        observer.observe_hidden_state("h", 2, state)


def test_the_length_is_that_of_the_longest_attention() -> None:
    """Of an encoder over 11 tokens, though the decoder over 9 comes last."""
    assert seen_of(*TINY["t5"](), ("sink",)).tokens == 11


def test_cross_attention_over_as_many_keys_has_no_distance_either() -> None:
    model, inputs = TINY["t5"]()
    inputs = {"input_ids": inputs["input_ids"][:, :9], "decoder_input_ids": inputs["decoder_input_ids"]}  # fmt: skip
    for site, values in seen_of(model, inputs, ("distance",)).heads.items():
        assert isinstance(values["distance"], str) == (site.kind == "cross")


# --- whole reports


def subject_of(model: Any) -> PreparedModel:
    from attncli.models.random.dummy_inputs import make_example_inputs

    short = make_example_inputs(model, 8)
    return PreparedModel(
        model, find_block_stacks(model, short), verify_capture(model, short).shapes
    )


def report_of(
    model: Any, ids: Tensor, metrics: tuple[str, ...] = (), twin: bool = False, **plan: Any
) -> Report:
    checkpoint = LoadedModel(model, {"class": type(model).__name__}, None)
    text = ModelInput("text", "token ids", {"input_ids": ids}, ids.shape[1])
    other = subject_of(make_random_init_model(model, 0)) if twin else None
    return inspect_model(
        checkpoint, subject_of(model), other, [text], HeadPlan(choose_metrics(metrics), **plan)
    )


def one(report: Report, metric: str, layer: int, head: int | None = None) -> Row:
    (row,) = [
        row
        for row in report.rows
        if (row.metric, row.layer) == (metric, layer) and (head is None or row.head == head)
    ]
    return row


def test_heads_that_are_built_get_the_roles_they_were_built_for() -> None:
    report = report_of(hand_built(), torch.randperm(20)[None] + 5)
    for layer, names in enumerate(ROLES):
        found = [one(report, "role", layer, head).keys["role"] for head in range(len(names))]
        assert tuple(found) == names
    scores = {
        ("previous_token", 0, 0): 1.0,
        ("sink", 0, 1): 1.0,
        ("entropy_normalised", 0, 2): 1.0,
        ("self_attention", 0, 3): 1.0,
        ("duplicate_token", 0, 4): 0.5,
        ("induction", 1, 0): 31 / 32,
        ("self_attention", 1, 1): 1.0,
    }
    for (metric, layer, head), value in scores.items():
        assert one(report, metric, layer, head).value == pytest.approx(value, abs=1e-9)
    about = [finding.about for finding in report.findings]
    assert {"sinks", "uniform heads", "induction heads", "previous-token heads"} <= set(about)


def test_a_single_token_shows_no_role() -> None:
    played = classify_role({"self_attention": 1.0}, {"self_attention": 1.0})
    assert played is not None
    assert played.role is MIXED


def test_a_large_vocabulary_costs_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """The config is asked once for its special tokens, not once for every token that there is."""
    model, asked = hand_built(), 0
    said = type(model.config).to_dict

    def counted(config: Any) -> Any:
        nonlocal asked
        asked += 1
        return said(config)

    monkeypatch.setattr(type(model.config), "to_dict", counted)
    make_repeated_tokens(model, 0)
    assert asked == 1


def test_repeated_tokens_are_all_different_and_none_is_special() -> None:
    found = make_repeated_tokens(hand_built(), 0)
    assert found is not None
    ids = found.kwargs["input_ids"][0]
    assert found.period == 16
    assert torch.equal(ids[:16], ids[16:])
    assert len(set(ids[:16].tolist())) == 16
    assert 0 not in ids
    assert make_repeated_tokens(TINY["vit"]()[0], 0) is None
    both = make_repeated_tokens(TINY["t5"]()[0], 0)
    assert both is not None
    assert set(both.kwargs) == {"input_ids", "decoder_input_ids"}


def test_nulls_stand_beside_every_number() -> None:
    ids = torch.arange(5, 17)[None]
    model = TINY["gpt2"]()[0]
    report = report_of(model, ids[:, :12], twin=True, shuffle=True)
    row = one(report, "entropy", 1, 2)
    n = 12
    even = sum(torch.tensor(float(i)).log().item() for i in range(1, n + 1)) / n
    assert row.keys["uniform"] == pytest.approx(even, rel=1e-6)
    assert row.keys["random_init"] == pytest.approx(even, rel=0.01)
    assert 0.0 < float(row.keys["shuffled"]) < even
    assert "random_init" in one(report, "max_activation", 1).keys


def test_a_shuffle_keeps_the_tokens_and_the_ends() -> None:
    ids = torch.arange(50)[None]
    text = ModelInput("text", "text", {"input_ids": ids}, 50)
    moved = shuffle_tokens(text, 0)
    assert moved is not None
    found = moved.kwargs["input_ids"][0]
    assert (int(found[0]), int(found[-1])) == (0, 49)
    assert sorted(found.tolist()) == ids[0].tolist()
    assert found.tolist() != ids[0].tolist()


def test_what_goes_with_the_tokens_is_shuffled_with_them() -> None:
    """In the order of the seed, always the same; what has another length stays."""
    ids, other = torch.arange(50)[None], torch.arange(49)[None]
    inputs = {"input_ids": ids, "token_type_ids": 100 + ids, "decoder_input_ids": other}
    text = ModelInput("text", "text", inputs, 50)
    found = [shuffle_tokens(text, seed) for seed in (0, 0, 1)]
    first, again, moved = (each.kwargs for each in found if each is not None)
    assert torch.equal(first["token_type_ids"], 100 + first["input_ids"])
    assert torch.equal(first["decoder_input_ids"], other)
    assert torch.equal(first["input_ids"], again["input_ids"])
    assert not torch.equal(first["input_ids"], moved["input_ids"])


def test_massive_activations_are_found_where_they_are() -> None:
    model = TINY["gpt2"]()[0]
    model.wpe.weight[0, 7] = 5000.0
    report = report_of(model, torch.arange(5, 15)[None])
    finding = report.findings[0]
    assert finding.about == "massive activations"
    assert "at token 0, feature 7" in finding.text
    gaps = [one(report_of(model, torch.arange(5, 15)[None], (name,)), name, 0).value for name in ("token_cosine_gap", "token_cosine_gap_without_spikes")]  # fmt: skip
    assert gaps[0] != pytest.approx(gaps[1], rel=1e-3)


def test_collapsed_states_are_named() -> None:
    model = TINY["gpt2"]()[0]
    model.wte.weight.mul_(1e-3)
    model.wpe.weight.mul_(1e-3)
    model.wpe.weight.add_(torch.randn(24, dtype=torch.float64))
    for block in model.h:
        block.mlp.c_proj.weight.mul_(1e-3)
        block.attn.c_proj.weight.mul_(1e-3)
    about = [finding.about for finding in report_of(model, torch.arange(5, 15)[None]).findings]
    assert "over-smoothing" in about
    assert "idle heads" not in about


def test_an_idle_head_is_named() -> None:
    model = TINY["gpt2"]()[0]
    model.h[1].attn.c_proj.weight[8:16] *= 1e-3
    report = report_of(model, torch.arange(5, 15)[None])
    (finding,) = [found for found in report.findings if found.about == "idle heads"]
    assert ": 1.1 (" in finding.text
    assert "equal share: 0.3333" in finding.text


def test_what_does_not_apply_is_null_with_its_reason() -> None:
    model, inputs = TINY["vit"]()
    checkpoint = LoadedModel(model, {"class": "ViTModel"}, None)
    text = ModelInput("image", "random pixel_values", inputs, 10)
    report = inspect_model(
        checkpoint, subject_of(model), None, [text], HeadPlan(choose_metrics(["roles"]))
    )
    (row,) = [row for row in report.rows if (row.metric, row.layer) == ("induction", 0)]
    assert row.value is None
    assert row.note == "n/a: only a text that repeats itself shows this"
    assert not row.is_missing
    assert one(report, "previous_token", 0, 0).value is not None


def test_layers_and_heads_can_be_chosen() -> None:
    ids = torch.arange(5, 15)[None]
    model = TINY["gpt2"]()[0]
    whole = report_of(model, ids, ("entropy",))
    part = report_of(
        model, ids, ("entropy",), layers=frozenset({1}), selects=lambda layer, head: head == 2
    )
    assert [(row.layer, row.head) for row in part.rows] == [(1, 2)]
    assert part.rows[0] == one(whole, "entropy", 1, 2)


@pytest.mark.parametrize("name", DEFAULT_HEADS)
def test_roles_do_not_come_from_numbers_that_even_attention_has_too(name: str) -> None:
    assert classify_role({name: 0.32}, {name: 0.31}) is None or classify_role({name: 0.32}, {name: 0.31}).role is MIXED  # type: ignore[union-attr] # fmt: skip


def test_roles_follow_their_thresholds() -> None:
    assert classify_role({"sink_max": 0.35}, {"sink_max": 0.05}).role is SINK  # type: ignore[union-attr]
    both = {"sink_max": 0.9, "induction": 0.5}
    assert classify_role(both, {"sink_max": 0.05, "induction": 0.05}).role is INDUCTION  # type: ignore[union-attr]
    assert classify_role({}, {}) is None


def test_the_report_is_strict_json(tmp_path: Path) -> None:
    from attncli.render.json import json as rendered

    document = json.loads(rendered(report_of(hand_built(), torch.arange(5, 25)[None])))
    assert document["study"] == "inspect-model"
    assert all(isinstance(row["uniform"], float) for row in document["rows"] if row["metric"] == "sink")  # fmt: skip


ASKED = "import attncli; attncli.inspect_model('random:{}', token_ids=['3,4,5,6'])"


@pytest.mark.slow
@pytest.mark.parametrize("model", ["jamba?tiny", "roformer?tiny&pad_token_id=3"])
def test_what_transformers_advises_while_a_model_runs_is_not_told(
    model: str, tmp_path: Path
) -> None:
    """Faster kernels for one, a mask of what may be padding for the other; once in a process."""
    asking = Warm(ASKED.format(model), (), environment(), tmp_path)
    assert (*asking.communicate(), asking.returncode) == ("", "", 0)
