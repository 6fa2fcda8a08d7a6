"""Prepare a model for measuring its heads: find its blocks and attention, and verify the capture."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from attncli.analysis.heads.model_heads import HeadPlan, VerifiedModel
from attncli.analysis.prepare import PROBE_TOKENS
from attncli.call_types import Inputs
from attncli.capture import AttentionSite, verify_capture
from attncli.capture.linear.linear_layers import LinearLayers, find_linear_layers
from attncli.capture.model_errors import translate_model_errors
from attncli.capture.other_mixers.token_mixers import find_mixers
from attncli.capture.other_mixers.uncapturable_attention import find_uncapturable_mixers
from attncli.capture.stacks.blocks import find_stacks_without_attention, find_structure
from attncli.capture.stacks.foreign_modules import ForeignModule
from attncli.errors import NoAttention, UsageError, with_article
from attncli.models.inputs.texts import ModelInput
from attncli.models.layer_configs import most_layers
from attncli.models.loading.load import LoadedModel
from attncli.models.loading.precision import run_in_model_precision
from attncli.models.random.dummy_inputs import make_example_inputs

if TYPE_CHECKING:
    from transformers import PreTrainedModel


def prepare_heads(body: "PreTrainedModel", text: ModelInput | None = None) -> VerifiedModel:
    """The model's blocks and attention, the capture proved on a short input; of a module of another origin on its text."""
    own, tokens = isinstance(body, ForeignModule), PROBE_TOKENS
    if own and text is not None:
        short, tokens = text.kwargs, text.tokens
    else:
        short = make_example_inputs(body, tokens)
    with translate_model_errors(body, {"a short input": short}), run_in_model_precision(body):
        try:
            proof = verify_capture(body, short)
        except NoAttention as reason:
            return prepare_linear_layers(body, short, tokens, reason)
        stacks = find_structure(body, short, may_have_none=own).stacks
        shapes = proof.shapes
        mixers = find_mixers(body, stacks, short, shapes)
        linear = find_linear_layers(
            body, mixers, short, *sorted({s.queries for s in shapes.values()})
        )
        mixers += find_uncapturable_mixers(stacks, proof.left_out, mixers, body)
        return VerifiedModel(body, stacks, shapes, mixers, linear, proof.left_out)


def prepare_softmax_heads(body: "PreTrainedModel") -> VerifiedModel:
    """Prepare a model for questions about softmax heads; one that has none is refused."""
    subject = prepare_heads(body)
    if not subject.shapes:
        raise NoAttention(
            f"{type(body).__name__} has no softmax head, and this question is about softmax heads alone."
        )
    return replace(subject, linear=LinearLayers())


def refuse_no_config(body: "PreTrainedModel") -> None:
    """Refuse models without a config, which cannot be rebuilt with random weights."""
    if isinstance(body, ForeignModule):
        raise UsageError(
            f"`with_random_init` draws a model of transformers anew; how {with_article(type(body).__name__)} begins is not known: "
            "inspect an untrained one as well.",
            about=["with_random_init"],
        )


def prepare_linear_layers(
    body: "PreTrainedModel", short: Inputs, tokens: int, reason: NoAttention
) -> VerifiedModel:
    """Prepare a model of linear layers only; one that has none of these either is refused."""
    stacks = find_stacks_without_attention(body, short)
    mixers = find_mixers(body, stacks, short, {}, tokens)
    linear = find_linear_layers(body, mixers, short, tokens)
    if linear.found:
        return VerifiedModel(body, stacks, {}, mixers, linear)
    why = "; ".join(f"{kind}: {reason}" for kind, reason in linear.refused.items())
    raise NoAttention(
        f"{str(reason).rstrip('.')}, and no linear layer{f' ({why})' if why else ''}."
    )


def available_heads(subject: VerifiedModel) -> dict[AttentionSite, range]:
    """The heads of attentions, and of linear layers."""
    softmax = {site: range(shape.heads) for site, shape in subject.shapes.items()}
    return softmax | {layer.site: range(layer.heads) for layer in subject.linear.found}


def refuse_layers_beyond(checkpoint: LoadedModel, plan: HeadPlan) -> None:
    """Refuse layers that no stack of the model has, from its config, before weights are read."""
    most = most_layers(checkpoint.model.config)
    if most is None:
        return
    beyond = sorted(layer for layer in plan.layers or () if layer >= most)
    if beyond:
        name = type(checkpoint.model).__name__
        raise UsageError(f"there is no layer {beyond[0]}: {name} has layers 0 to {most - 1}.")


def refuse_absent(heads: Mapping[AttentionSite, Sequence[int]], plan: HeadPlan) -> None:
    """Refuse requested layers without attention, and heads that do not exist."""
    present = {site.layer for site in heads}
    missing = sorted((plan.layers or frozenset()) - present)
    if missing:
        there = ", ".join(map(str, sorted(present)))
        raise UsageError(f"layer {missing[0]} has no attention: there is some in {there}.")
    chosen = {
        (site.layer, head)
        for site, own in heads.items()
        if plan.layers is None or site.layer in plan.layers
        for head in own
    }
    if not any(plan.keeps(*each) for each in chosen):
        numbers = sorted(head for _, head in chosen)
        raise UsageError(
            f"`heads` names no head of the model: they are {numbers[0]} … {numbers[-1]}."
        )
