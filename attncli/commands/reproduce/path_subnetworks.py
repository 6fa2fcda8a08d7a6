"""Outputs of single paths: one head in each layer of the path; in the others nothing, or the skip
only.

Two readings of "this path alone". `again`, as the published scripts run it: in the layers of its path a sub-network is
LN(one head's output), without the skip and without the norm's learned gain and bias, and with attention that looks at
what the sub-network's own layers gave; layers that the path passes by are left out whole, norms included. `frozen`: the
path's own term of the network's output, with the maps and the norms' denominators of the full pass, and without the
constants on its way.
"""

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

from attncli.commands.reproduce.sequence_labeller import TokenClassifier

EPSILON = 1e-12
"""Of every norm of BERT's."""

Path = tuple[int, ...]
"""0, past the layer's attention, or a head from 1 on, in every layer."""


class SubnetworkLayers(Protocol):
    """What a layer does to states [sequence, token, feature]."""

    def pass_states_past_attention(self, layer: int, states: Tensor) -> Tensor:
        """The states where the path skips the layer's attention."""

    def make_head_output_function(self, layer: int, states: Tensor) -> Callable[[int], Tensor]:
        """The states after each head."""


def run_layers_along_paths(
    first: Tensor, steps: SubnetworkLayers, layers: int, paths: Sequence[Path]
) -> list[Tensor]:
    """The last states of every path; where paths begin alike, that is run once."""
    states: dict[Path, Tensor] = {(): first}
    for layer in range(layers):
        heads: dict[Path, Callable[[int], Tensor]] = {}
        following = {}
        for path in dict.fromkeys(path[: layer + 1] for path in paths):
            before, head = path[:-1], path[-1]
            if head and before not in heads:
                heads[before] = steps.make_head_output_function(layer, states[before])
            following[path] = (
                heads[before](head)
                if head
                else steps.pass_states_past_attention(layer, states[before])
            )
        states = following
    return [states[path] for path in paths]


def run_path_subnetworks(
    network: TokenClassifier, inputs: Tensor, paths: Sequence[Path]
) -> list[Tensor]:
    """The output [sequence, token, feature] of every path's sub-network."""
    return run_layers_along_paths(
        network.embedding(inputs), RecomputedLayers(network), len(network.blocks), paths
    )


def compute_path_terms_with_fixed_attention(
    network: TokenClassifier, inputs: Tensor, paths: Sequence[Path]
) -> list[Tensor]:
    """Every path's term [sequence, token, feature] of the network's output."""
    first = network.embedding(inputs)
    return run_layers_along_paths(
        first, LayersWithFrozenAttention(network, first), len(network.blocks), paths
    )


class RecomputedLayers:
    """Layers that compute attention from the sub-network's own states."""

    def __init__(self, network: TokenClassifier) -> None:
        self.blocks: Any = network.blocks  # transformers' classes have no types

    def pass_states_past_attention(self, layer: int, states: Tensor) -> Tensor:
        return states

    def make_head_output_function(self, layer: int, states: Tensor) -> Callable[[int], Tensor]:
        block = self.blocks[layer]
        contexts = block.self(states)[0]
        dense = block.output.dense

        def output_of_head(head: int) -> Tensor:
            own = slice_features_of_head(block, head)
            return layer_norm_without_weights(
                F.linear(contexts[..., own], dense.weight[:, own], dense.bias)
            )

        return output_of_head


class LayersWithFrozenAttention:
    """Layers that apply to a part of the stream what they did to all of it."""

    def __init__(self, network: TokenClassifier, states: Tensor) -> None:
        self.blocks: Any = network.blocks
        self.maps: list[Tensor] = []
        """[sequence, head, query, key], of each layer."""
        self.scales: list[Tensor] = []
        """Factor by which each layer's norm multiplies a centred token [sequence, token, feature].
        """
        block: Any
        for block in self.blocks:
            contexts, maps = block.self(states)
            norm, summed = block.output.LayerNorm, states + block.output.dense(contexts)
            deviations = torch.sqrt(summed.var(dim=-1, correction=0, keepdim=True) + norm.eps)
            self.maps.append(maps)
            self.scales.append(norm.weight / deviations)
            states = norm(summed)

    def pass_states_past_attention(self, layer: int, states: Tensor) -> Tensor:
        return (states - states.mean(dim=-1, keepdim=True)) * self.scales[layer]

    def make_head_output_function(self, layer: int, states: Tensor) -> Callable[[int], Tensor]:
        block = self.blocks[layer]

        def output_of_head(head: int) -> Tensor:
            own = slice_features_of_head(block, head)
            values = F.linear(states, block.self.value.weight[own])
            mixed = self.maps[layer][:, head - 1] @ values
            return self.pass_states_past_attention(
                layer, F.linear(mixed, block.output.dense.weight[:, own])
            )

        return output_of_head


def slice_features_of_head(block: Any, head: int) -> slice:
    """Slice of one head's features among those of all heads."""
    width = block.self.attention_head_size
    return slice((head - 1) * width, head * width)


def layer_norm_without_weights(states: Tensor) -> Tensor:
    return F.layer_norm(states, states.shape[-1:], eps=EPSILON)
