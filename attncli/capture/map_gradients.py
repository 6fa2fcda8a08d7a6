"""Keep whole attention maps in the autograd graph, to differentiate the output by them."""

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from torch import Tensor, nn

from attncli.capture.attention_function_registry import (
    EAGER,
    force_eager_attention,
    swap_attention_functions,
)
from attncli.capture.softmax_attention.attention_interface import find_unpatched_eager_attention
from attncli.capture.softmax_attention.attention_site_names import AttentionSite, SiteNamer
from attncli.errors import InputError
from attncli.forward_argument_types import Output


class DifferentiableMap(NamedTuple):
    """The map of one attention, as it multiplies the values."""

    site: AttentionSite
    weights: Tensor
    """[1, head, query, key]"""


@contextmanager
def retain_maps_with_gradients(
    model: nn.Module, blocks: Collection[nn.Module]
) -> Iterator[list[DifferentiableMap]]:
    """Within, one forward pass of the model, with gradients, appends its maps to the list, in the order in which they ran.

    The model's own eager functions compute them. Parameters before the `blocks` require gradients, so that every map is in
    the graph; the model is restored afterwards.
    """
    sites, retained = SiteNamer(model), list[DifferentiableMap]()

    def attend_and_retain_map(
        module: nn.Module,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        mask: Tensor | None,
        *args: Any,
        **how: Any,
    ) -> Output:
        output, weights = find_unpatched_eager_attention(module)(
            module, query, key, value, mask, *args, **how
        )
        retained.append(DifferentiableMap(sites.name_attention_site(module), weights))
        return output, weights

    with (
        force_eager_attention(model),
        sites.count_list_element_forwards(),
        enable_gradients_before_blocks(model, blocks),
        swap_attention_functions({EAGER: attend_and_retain_map}),
    ):
        yield retained


@contextmanager
def enable_gradients_before_blocks(
    model: nn.Module, blocks: Collection[nn.Module]
) -> Iterator[None]:
    """Make parameters before the blocks, such as embeddings, require gradients temporarily."""
    inside = {id(weight) for block in blocks for weight in block.parameters()}
    before = [
        weight
        for weight in model.parameters()
        if id(weight) not in inside and weight.is_floating_point() and not weight.requires_grad
    ]
    try:
        for weight in before:
            weight.requires_grad_(True)
        yield
    finally:
        for weight in before:
            weight.requires_grad_(False)


def refuse_incomplete_maps(
    maps: Collection[DifferentiableMap], proved: Collection[AttentionSite]
) -> None:
    """Refuse incomplete maps: all known attentions must be there, whole, and depend on the input."""
    missed = set(proved) - {each.site for each in maps}
    if missed:
        site = min(missed, key=lambda site: site.name)
        raise InputError(
            f"{site.name} computes its attention apart from transformers' interface, where its map is not to be "
            "differentiated by: relevance cannot be told for this model."
        )
    for site, weights in maps:
        queries, keys = weights.shape[-2:]
        if (
            len(weights) != 1
            or (site.is_self_attention and queries != keys)
            or not weights.requires_grad
        ):
            raise InputError(
                f"{site.name} attends within parts of its input, or to what does not follow from it: relevance cannot be "
                "told for this model."
            )
