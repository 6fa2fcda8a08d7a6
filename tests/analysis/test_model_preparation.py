"""One preparation for every question: how many forwards it takes, and that each of its verifications still fails alone."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

import pytest
import torch
from torch import nn
from transformers import LlamaConfig, LlamaModel, PreTrainedModel

import attncli as attn
from attncli.ablation import recognise_block_anatomy
from attncli.ablation.stream_tracking import torch_function_tracker
from attncli.analysis.load_and_verify_model import HEADS, Requirement, prepare_model
from attncli.analysis.rank_collapse import blocks_for_ablation
from attncli.analysis.rank_collapse.blocks_for_ablation import (
    add_mixers_and_mlps,
    note_uncaptured_attention,
)
from attncli.capture import verify_capture
from attncli.capture.attention_capture import Capture
from attncli.capture.probe_causality_and_positions import detect_causality_and_positions
from attncli.errors import InputError
from attncli.models.loading.loaded_model import remove_model_head
from attncli.models.precision import run_in_model_precision
from attncli.models.random.random_models import build_model

torch.set_num_threads(1)


def tiny(kind: str) -> PreTrainedModel:
    return remove_model_head(build_model(kind, {"tiny": 1}, 0, torch.float64))


def forwards(body: nn.Module, work: Callable[[], object]) -> int:
    """How many forwards of the model the work makes."""
    passes: list[None] = []
    handle = body.register_forward_pre_hook(lambda *_: passes.append(None))
    work()
    handle.remove()
    return len(passes)


NEEDS = {
    "states between blocks": (Requirement.BLOCKS, 1),
    "maps": (Requirement.CAPTURE, 2),
    "heads": (HEADS, 3),
    "heads and linear layers": (HEADS | Requirement.LINEAR, 4),
    "variants": (Requirement.ANATOMY, 5),
}
"""The probe; plain, captured; inputs of what may mix tokens; or two without additions, as capture and tracking are one."""


@pytest.mark.parametrize("needs", NEEDS)
@pytest.mark.parametrize("kind", ["bert", "gpt2", "t5", "bloom"])
def test_no_forward_is_run_that_is_not_needed(kind: str, needs: str) -> None:
    body, (wanted, most) = tiny(kind), NEEDS[needs]
    assert forwards(body, lambda: prepare_model(body, needs=wanted)) == most


EFFECTS = {"big_bird": 6, "swin": 5, "bigbird_pegasus": 6}
"""BigBird exchanges modules in its first forward, so that the second shows them; windows remember a path."""


@pytest.mark.parametrize("kind", EFFECTS)
def test_a_forward_that_changes_the_model_costs_one_more_at_most(kind: str) -> None:
    body = tiny(kind)
    taken = forwards(body, lambda: prepare_model(body, needs=Requirement.ANATOMY))
    assert taken == EFFECTS[kind]


def separately(body: PreTrainedModel, short: Any) -> tuple[Any, ...]:
    """What verification, recognition and the trial with equal tokens find, each in forwards of its own."""
    with run_in_model_precision(body):
        proof = verify_capture(body, short)
        anatomy = recognise_block_anatomy(body, short)
        traits = detect_causality_and_positions(body, anatomy.stacks, short, proof)
    return facts(
        proof, note_uncaptured_attention(anatomy, proof), add_mixers_and_mlps(traits, anatomy)
    )


def facts(proof: Any, anatomy: Any, traits: Any) -> tuple[Any, ...]:
    """All that does not hold modules of one model."""
    parts = (anatomy.paths, anatomy.merges, anatomy.branch_norms, anatomy.mlp_norms, anatomy.mixing)
    seen = (proof.sites, proof.shapes, proof.causal, proof.whole_maps, proof.eager_alone)
    return (*seen, proof.left_out, *parts, anatomy.notes, dict(traits))


ALIKE = (
    "bert", "gpt2", "t5", "bloom", "big_bird", "swin", "albert", "mpt", "xlnet", "deberta-v2", "gemma3_text", "gpt_oss",
    "qwen3_next", "lfm2", "falcon", "convbert", "vit",
)  # fmt: skip


@pytest.mark.parametrize(
    "kind", [pytest.param(each, marks=[pytest.mark.slow] * (place > 3)) for place, each in enumerate(ALIKE)]
)  # fmt: skip
def test_forwards_that_serve_several_trials_show_what_each_alone_shows(kind: str) -> None:
    prepared = prepare_model(tiny(kind), needs=Requirement.ANATOMY)
    examined = prepared.anatomy
    assert examined is not None
    with prepared.short.cut.truncate_residual_streams():
        together = facts(prepared.proof, examined.anatomy, examined.properties)
    assert together == separately(tiny(kind), prepared.short.kwargs)


def test_cross_attention_is_a_cause_of_a_linear_rate() -> None:
    """The decoder's keys and values are the encoder's, which the decoder's own residual leaves as they are."""
    examined = prepare_model(tiny("t5"), needs=Requirement.ANATOMY).anatomy
    assert examined is not None
    causes = {
        name: each.causes_of_linear_collapse_rate for name, each in examined.properties.items()
    }
    assert causes["decoder"] == "causal mask, positions in the attention, cross-attention"
    assert causes["encoder"] == "positions in the attention"


# --- each verification fails alone


@contextmanager
def wrong_capture(change: Callable[[Any], Any]) -> Iterator[None]:
    """The output under capture is another one."""
    usual = Capture.attend_and_emit_map_rows

    def attend(self: Capture, *args: Any, **kwargs: Any) -> Any:
        output, weights = usual(self, *args, **kwargs)
        return change(output), weights

    with mock.patch.object(Capture, "attend_and_emit_map_rows", attend):
        yield


@contextmanager
def wrong_tracking() -> Iterator[None]:
    """What is followed is changed a little."""
    usual = torch_function_tracker.evaluate_residual_addition

    def evaluate(*args: Any) -> Any:
        return 1.001 * usual(*args)

    with mock.patch.object(torch_function_tracker, "evaluate_residual_addition", evaluate):
        yield


@contextmanager
def missed_rows() -> Iterator[None]:
    """Half of the rows are not counted."""
    usual = Capture.count_captured_rows

    def count(self: Capture, site: Any, strip: Any) -> None:
        if strip.contains_first_map_row:
            usual(self, site, strip)

    with mock.patch.object(Capture, "count_captured_rows", count):
        yield


MUTATIONS = {
    "another output": (lambda: wrong_capture(lambda y: 1.01 * y), "output under capture differs"),
    "tokens in another order": (lambda: wrong_capture(lambda y: y.flip(1)), "output under capture differs"),
    "rows missed": (missed_rows, "rows of its attention were seen"),
}  # fmt: skip


@pytest.mark.parametrize(
    "needs", [HEADS, Requirement.CAPTURE, Requirement.ANATOMY, HEADS | Requirement.LINEAR]
)
@pytest.mark.parametrize("how", MUTATIONS)
def test_a_wrong_capture_is_seen_by_whatever_needs_it(how: str, needs: Requirement) -> None:
    mutate, said = MUTATIONS[how]
    with mutate(), pytest.raises(InputError, match=said):
        prepare_model(tiny("bert"), needs=needs)


def test_wrong_tracking_is_seen_though_the_capture_is_right() -> None:
    with wrong_tracking():
        prepare_model(tiny("bert"), needs=HEADS)
        with pytest.raises(InputError, match=r"cannot be ablated|its tensors are followed"):
            prepare_model(tiny("bert"), needs=Requirement.ANATOMY)


def test_eager_code_that_computes_something_else_is_noted() -> None:
    """Then the variants run in that code, and each trial has forwards of its own."""
    body = tiny("bert")
    assert not prepare_model(body, needs=Requirement.ANATOMY).proof.eager_alone
    attention = nn.functional.scaled_dot_product_attention
    with mock.patch.object(nn.functional, "scaled_dot_product_attention", lambda *a, **k: 1.1 * attention(*a, **k)):  # fmt: skip
        proof = prepare_model(body, needs=Requirement.ANATOMY).proof
    assert proof.eager_alone


# --- forwards that change the model


@pytest.mark.slow
def test_angles_of_a_longer_text_are_back_after_the_preparation() -> None:
    torch.manual_seed(0)
    sizes = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 24}  # fmt: skip
    config = LlamaConfig(vocab_size=40, max_position_embeddings=16, initializer_range=0.3, **sizes)
    config.rope_parameters = {"rope_type": "dynamic", "factor": 2.0, "rope_theta": 10000.0}
    model = LlamaModel(config).double().eval()
    long = (torch.arange(16) % 40)[None]
    for ask in (attn.rank_collapse, attn.inspect_model, attn.paths):
        alone = ask(model, inputs=long).rows
        ask(model, inputs=long[:, :5])
        assert ask(model, inputs=long).rows == alone


def test_what_fails_in_the_watched_forward_is_tried_one_by_one() -> None:
    """Where capture and tracking do not go together, though each alone does."""
    body = tiny("bert")
    with mock.patch.object(
        blocks_for_ablation, "gather_capture_evidence", side_effect=RuntimeError
    ):
        apart = prepare_model(body, needs=Requirement.ANATOMY)
    both = prepare_model(body, needs=Requirement.ANATOMY)
    assert apart.anatomy is not None
    assert both.anatomy is not None
    assert apart.anatomy.anatomy.paths == both.anatomy.anatomy.paths
    assert apart.proof == both.proof
