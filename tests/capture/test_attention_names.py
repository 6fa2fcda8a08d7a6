"""Which attention is which: every one has a name of its own, in every kind of model; differential attention has three maps."""

from typing import Any

import pytest
import torch
import transformers as hf
from torch import Tensor, nn

from attncli.analysis.heads.forward_passes.head_observer import PassRequest, measure_forward_pass
from attncli.analysis.heads.forward_passes.uniform_attention_control import UniformAttentionControl
from attncli.analysis.heads.report_rows.head_rows import name_stacks_of_attention_sites
from attncli.capture import AttentionSite, Strip, capture_attention, verify_capture
from attncli.capture.model_structure.blocks import find_block_stacks
from attncli.capture.saved_maps.map_names import NAME, name_attention_map_tensor
from attncli.capture.softmax_attention import differential_attention
from attncli.capture.softmax_attention.attention_site_names import (
    SiteNamer,
    find_distinguishing_path_words,
)
from attncli.capture.verify_captured_attention import refuse_indistinguishable_attentions
from attncli.errors import InputError
from attncli.metrics.attention import ATTENTION
from attncli.models.quiet_libraries import silence_libraries
from attncli.models.random.dummy_inputs import make_example_inputs
from attncli.models.random.random_models import build_model

torch.set_num_threads(1)

TYPES = """
albert bert bridgetower diffllama gpt2 groupvit_vision_model levit lilt lxmert qwen3_next sam sam_hq sam3 sam3_lite_text swin t5
timesformer xclip xclip_vision_model
""".split()  # noqa: SIM905

ONE_STACK = ("albert", "bert", "diffllama", "gpt2", "lilt", "timesformer", "xclip_vision_model")
"""Every layer attends, and the config says how many there are."""


@pytest.mark.slow
@pytest.mark.parametrize("kind", TYPES)
def test_names_are_unique_and_layers_are_those_of_the_model(kind: str) -> None:
    with silence_libraries():
        model = build_model(kind, {"tiny": ""}, seed=0)
        inputs = make_example_inputs(model)
        sites = verify_capture(model, inputs).shapes
        stacks = find_block_stacks(model, inputs)
    calls = [call for stack in stacks for call in stack.calls]
    names = name_stacks_of_attention_sites(list(sites), stacks)
    assert len({(site.stack, name) for site, name in names.items()}) == len({site.stack for site in sites})  # fmt: skip
    assert len({(names[site], site.kind, site.layer) for site in sites}) == len(sites)
    assert len({site.stack_name_kind_and_layer for site in sites}) == len(sites)
    assert len({name_in_file(site) for site in sites}) == len(sites)
    for site in sites:
        there = [call for call in calls if call.name.startswith(f"{site.stack}.")]
        alike = [
            other
            for other in sites
            if other.stack_name_kind_and_layer[:2] == site.stack_name_kind_and_layer[:2]
        ]
        assert site.layer < max(len(alike), len(there)), site
    config = model.config
    if kind in ONE_STACK:
        plain = [site.layer for site in sites if site.kind == "self"]
        assert plain == list(range(config.num_hidden_layers))


def name_in_file(site: AttentionSite) -> str:
    name = name_attention_map_tensor(site, several=True)
    match = NAME.fullmatch(name)
    assert match is not None
    assert (match["stack"], int(match["layer"])) == (site.stack, site.layer)
    return name


def test_two_attentions_of_one_name_are_refused() -> None:
    one, other = (AttentionSite("h", 0, "self", "full", name) for name in ("h.0.a", "h.0.b"))
    with pytest.raises(InputError, match=r"h.0.b and h.0.a would both be reported as self attention of layer 0"):  # fmt: skip
        refuse_indistinguishable_attentions([one, other])
    refuse_indistinguishable_attentions([one])


@pytest.mark.parametrize(
    ("path", "words"),
    [
        (".cross_attn_token_to_image", "token to image"),
        (".attention.self", ""),
        (".layer.*.EncDecAttention", ""),
        (".text_cross_attn", "text"),
        (".message_attn", "message"),
    ],
)
def test_what_a_path_says_beside_the_kind(path: str, words: str) -> None:
    assert find_distinguishing_path_words(path) == words


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.part = nn.Identity()


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.attn = Attention()

    def forward(self, attend: Any) -> None:
        attend(self.attn)
        attend(self.attn)


def test_what_attends_twice_in_a_layer_stays_in_it_and_a_layer_that_runs_again_is_another() -> None:
    model = nn.ModuleDict({"layers": nn.ModuleList([Block(), Block()])})
    sites, found = SiteNamer(model), []
    with sites.count_list_element_forwards():
        for _ in range(2):
            for block in model["layers"]:  # type: ignore[attr-defined]
                block(lambda module: found.append(sites.name_attention_site(module)))
    assert [(site.layer, site.kind) for site in found] == [
        (layer, kind) for layer in range(4) for kind in ("self", "self 2")
    ]


# --- differential attention


@pytest.fixture
def differential_llama() -> tuple[Any, dict[str, Tensor]]:
    torch.manual_seed(0)
    config = hf.DiffLlamaConfig(
        vocab_size=50,
        hidden_size=32,
        num_hidden_layers=3,
        num_attention_heads=4,
        num_key_value_heads=2,
        intermediate_size=48,
        lambda_std_dev=0.5,
        initializer_range=0.4,
        attn_implementation="eager",
        use_cache=False,
    )
    model = hf.DiffLlamaModel(config).eval().double()
    return model, {"input_ids": torch.randint(5, 50, (1, 30))}


def expected_maps(model: Any, inputs: dict[str, Tensor]) -> list[tuple[Tensor, Tensor]]:
    """Both softmaxes as eager attention returns them, and their difference with λ by the paper's formula."""
    with torch.no_grad():
        maps = model(**inputs, output_attentions=True).attentions
        found = []
        for layer, weights in zip(model.layers, maps, strict=True):
            a = layer.self_attn
            first = sum(float(x) * float(y) for x, y in zip(a.lambda_q1, a.lambda_k1, strict=True))
            other = sum(float(x) * float(y) for x, y in zip(a.lambda_q2, a.lambda_k2, strict=True))
            share = torch.tensor(first).exp() - torch.tensor(other).exp() + a.lambda_init
            both = weights[0].double()
            found.append((both, both[:2] - float(share) * both[2:]))
    return found


def test_differential_attention_is_two_maps_of_a_layer_and_the_one_that_is_applied(
    differential_llama: tuple[Any, dict[str, Tensor]],
) -> None:
    model, inputs = differential_llama
    strips: dict[tuple[int, str], list[Tensor]] = {}

    def keep(site: AttentionSite, strip: Strip) -> None:
        full = strip.weights.new_zeros((*strip.weights.shape[:3], strip.keys))
        full[..., strip.first_key : strip.first_key + strip.weights.shape[3]] = strip.weights
        strips.setdefault((site.layer, site.kind), []).append(full[0])

    with torch.no_grad(), capture_attention(model, keep, 4 * 3 * 4 * 30 * 4):
        model(**inputs)
    assert list(strips) == [(layer, kind) for layer in range(3) for kind in ("self", "difference")]
    for layer, (both, applied) in enumerate(expected_maps(model, inputs)):
        assert (torch.cat(strips[layer, "self"], dim=1) - both).abs().max() < 1e-6
        assert (torch.cat(strips[layer, "difference"], dim=1) - applied).abs().max() < 1e-5
        assert applied.min() < -1e-3


def test_signed_maps_have_the_numbers_that_make_sense_of_them(
    differential_llama: tuple[Any, dict[str, Tensor]],
) -> None:
    model, inputs = differential_llama
    names = tuple(ATTENTION.names())
    shapes = verify_capture(model, inputs).shapes
    seen = measure_forward_pass(model, find_block_stacks(model, inputs), inputs, PassRequest(names), UniformAttentionControl(), "", lambda _: None, proved=shapes)  # fmt: skip
    applied = {layer: maps for layer, (_, maps) in enumerate(expected_maps(model, inputs))}
    for site in (site for site in seen.heads if site.is_differential_map):
        values = seen.heads[site]
        for name in names:
            if not ATTENTION.declaration_of_entry(name).signed:
                assert isinstance(values[name], str), name
        weights = applied[site.layer]
        sizes = torch.linalg.svdvals(weights)
        n = weights.shape[-1]
        by_hand = {
            "s1": sizes[:, 0],
            "s2_over_s1": sizes[:, 1] / sizes[:, 0],
            "attention_stable_rank": weights.square().sum((1, 2)) / sizes[:, 0].square(),
            "self_attention": weights.diagonal(dim1=1, dim2=2).mean(-1),
            "sink": weights[:, :, 0].mean(-1),
            "previous_token": torch.stack([w[range(1, n), range(n - 1)].mean() for w in weights]),
        }
        for name, expected in by_hand.items():
            assert torch.allclose(values[name], expected, rtol=1e-3, atol=1e-5), name  # type: ignore[arg-type]
        total = float(weights[0, 0].sum())
        assert float(seen.nulls[site]["self_attention"]) == pytest.approx(  # type: ignore[arg-type]
            total * sum(1 / (i + 1) for i in range(n)) / n, rel=1e-4
        )
    reason = seen.heads[next(site for site in seen.heads if site.is_differential_map)]["entropy"]
    assert reason == "n/a: weights of both signs are no shares of attention"


def test_differential_attention_that_computes_something_else_is_refused(
    differential_llama: tuple[Any, dict[str, Tensor]], monkeypatch: pytest.MonkeyPatch
) -> None:
    model, inputs = differential_llama
    usual = differential_attention.compute_differential_lambda
    monkeypatch.setattr(
        differential_attention, "compute_differential_lambda", lambda module: usual(module) + 0.01
    )
    with pytest.raises(InputError, match="which maps it applies is not understood"):
        verify_capture(model, inputs)
