"""The network of the first seed during training, with its attention as a module, so that capture
works on it."""

import torch
from torch import Tensor, nn

from attncli.commands.reproduce.circle.arc_positions import PAIRS, compute_arc_positions
from attncli.commands.reproduce.circle.circle_network import (
    BatchedCircleNetworks,
    Drop,
    build_training_inputs,
    keep_states_without_dropout,
)


class CircleAttention(nn.Module):
    """The weighing of values: [pair, head, point, key]."""

    def forward(self, logits: Tensor, values: Tensor) -> Tensor:
        weights: Tensor = torch.softmax(logits, dim=-1)
        return weights @ values


class FirstCircle(nn.Module):
    """Computes the same as the batched networks, for the first of them."""

    def __init__(self, networks: BatchedCircleNetworks) -> None:
        super().__init__()
        self.networks = networks
        self.attention = CircleAttention()

    def forward(self, pairs: Tensor) -> Tensor:
        """The next points [pair, point, 2] from a batch of one [1, pair, point, 2]."""
        networks = self.networks
        seeds = len(networks.get_parameter("w_q"))
        networks.average_values_by_softmax = self.average_values_by_softmax  # type: ignore[method-assign]
        try:
            found: Tensor = networks(pairs.expand(seeds, -1, -1, -1), keep_states_without_dropout)
        finally:
            del networks.average_values_by_softmax
        return found[0]

    def average_values_by_softmax(self, logits: Tensor, values: Tensor, drop: Drop) -> Tensor:
        """As the networks do it, the first one through the module."""
        mixed = BatchedCircleNetworks.average_values_by_softmax(self.networks, logits, values, drop)
        own: Tensor = self.attention(logits[0].transpose(0, 1), values[0].transpose(0, 1))
        return torch.cat([own.transpose(0, 1)[None], mixed[1:]])


def build_arc_training_pairs(networks: BatchedCircleNetworks) -> dict[str, Tensor]:
    """All that is taught, as the module takes it."""
    taught = torch.from_numpy(compute_arc_positions(PAIRS + 1)).float()
    return {"pairs": build_training_inputs(networks.design, taught)[None]}
