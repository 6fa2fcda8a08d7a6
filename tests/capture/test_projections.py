"""The layer that takes the heads' outputs: found where its input is exactly these, and never guessed."""

import torch
from torch import Tensor, nn
from transformers.pytorch_utils import Conv1D

from attncli.capture import AttentionSite, Strip
from attncli.capture.softmax_attention.attention_output_projections import OutputProjections

torch.set_num_threads(1)

HEADS, VALUES, TOKENS = 2, 3, 4
FIRST, SECOND = (AttentionSite("h", layer, "self", "full", f"h.{layer}.attn") for layer in range(2))


class Watched:
    """What is found, and under which attention."""

    def __init__(self) -> None:
        self.sites: list[AttentionSite] = []
        self.projections: list[Tensor] = []
        self.watch = OutputProjections(self.found)

    def found(self, site: AttentionSite, context: Tensor, projection: Tensor) -> None:
        self.sites.append(site)
        self.projections.append(projection)

    def strips(self, site: AttentionSite, outputs: Tensor | None, rows: int = 3) -> None:
        """[batch, query, head, value], in strips."""
        for start in range(0, TOKENS, rows):
            part = None if outputs is None else outputs[:, start : start + rows]
            weights = torch.ones(1, HEADS, min(rows, TOKENS - start), TOKENS)
            self.watch.collect_head_outputs_of_map_rows(
                site, Strip(weights, start, 0, TOKENS, TOKENS, outputs=part)
            )


def outputs() -> Tensor:
    generator = torch.Generator().manual_seed(0)
    return torch.randn(1, TOKENS, HEADS, VALUES, generator=generator)


def test_the_first_layer_with_exactly_this_input_is_taken_once() -> None:
    """Not one before it that is given as many other numbers, nor one after it."""
    watched, layer = Watched(), nn.Linear(HEADS * VALUES, 5)
    watched.strips(FIRST, outputs())
    watched.watch.find_output_projection_by_input(layer, (2.0 * outputs().flatten(2),))
    assert watched.sites == []
    for _ in range(2):
        watched.watch.find_output_projection_by_input(layer, (outputs().flatten(2),))
    assert watched.sites == [FIRST]
    assert torch.equal(watched.projections[0], layer.weight.T.reshape(HEADS, VALUES, 5))


def test_weights_that_stand_the_other_way_are_turned() -> None:
    watched, layer = Watched(), Conv1D(5, HEADS * VALUES)
    watched.strips(FIRST, outputs())
    watched.watch.find_output_projection_by_input(layer, (outputs().flatten(2),))
    assert torch.equal(watched.projections[0], layer.weight.reshape(HEADS, VALUES, 5))


def test_outputs_that_were_not_seen_are_not_those_of_the_attention_before() -> None:
    watched = Watched()
    watched.strips(FIRST, outputs())
    watched.strips(SECOND, None)
    watched.watch.find_output_projection_by_input(
        nn.Linear(HEADS * VALUES, 5), (outputs().flatten(2),)
    )
    assert watched.sites == []
