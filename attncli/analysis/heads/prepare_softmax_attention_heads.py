"""Prepare a model for questions about its softmax heads, and refuse heads and layers that it does not have."""

from collections.abc import Mapping, Sequence

from transformers import PreTrainedModel

from attncli.analysis.heads.model_inspection import HeadPlan
from attncli.analysis.load_and_verify_model import PreparedModel, prepare_model
from attncli.capture import AttentionSite
from attncli.capture.model_structure.modules_outside_transformers import ForeignModule
from attncli.errors import NoAttention, UsageError, add_article
from attncli.models.layer_sizes_from_config import find_deepest_layer_count
from attncli.models.loading.loaded_model import LoadedModel


def prepare_softmax_heads(body: PreTrainedModel) -> PreparedModel:
    """Prepare a model for questions about softmax heads; one that has none is refused."""
    subject = prepare_model(body, without_attention="linear")
    if not subject.shapes:
        raise NoAttention(
            f"{type(body).__name__} has no softmax head, and this question is about softmax heads alone."
        )
    return subject


def refuse_no_config(body: PreTrainedModel) -> None:
    """Refuse models without a config, which cannot be rebuilt with random weights."""
    if isinstance(body, ForeignModule):
        raise UsageError(
            f"`with_random_init` draws a model of transformers anew; how {add_article(type(body).__name__)} begins is not known: "
            "inspect an untrained one as well.",
            about=["with_random_init"],
        )


def list_available_heads(subject: PreparedModel) -> dict[AttentionSite, range]:
    """The heads of attentions, and of linear layers."""
    softmax = {site: range(shape.heads) for site, shape in subject.shapes.items()}
    return softmax | {layer.site: range(layer.heads) for layer in subject.linear.layers}


def refuse_nonexistent_layers(checkpoint: LoadedModel, plan: HeadPlan) -> None:
    """Refuse layers that no stack of the model has, from its config, before weights are read."""
    most = find_deepest_layer_count(checkpoint.model.config)
    if most is None:
        return
    beyond = sorted(layer for layer in plan.layers or () if layer >= most)
    if beyond:
        name = type(checkpoint.model).__name__
        raise UsageError(f"there is no layer {beyond[0]}: {name} has layers 0 to {most - 1}.")


def refuse_nonexistent_heads(heads: Mapping[AttentionSite, Sequence[int]], plan: HeadPlan) -> None:
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
    if not any(plan.selects(*each) for each in chosen):
        numbers = sorted(head for _, head in chosen)
        raise UsageError(
            f"`heads` names no head of the model: they are {numbers[0]} … {numbers[-1]}."
        )
