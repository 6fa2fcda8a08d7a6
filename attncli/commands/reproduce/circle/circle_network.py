"""The network with the weights of several seeds at once, as they differ in nothing else, and its training.

Axes: s seed, b pair, t point (token), h head, f g features, k key width.
"""

import math
from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor, nn

from attncli.commands.reproduce.circle.arc_positions import PAIRS, compute_arc_positions
from attncli.commands.reproduce.circle.network_design import HEADS, NORM_EPSILON, NetworkDesign
from attncli.maths.common_row_arithmetic.arrays_with_integer_exponent import Array

BATCH = 30
"""Pairs of a step, in their order along the arcs, as released; the last batch is shorter."""
BATCHES = -(-PAIRS // BATCH)
INIT = 0.02
"""Standard deviation of BERT's weights."""

Drop = Callable[[Tensor], Tensor]


class BatchedCircleNetworks(nn.Module):
    """One network for each seed, side by side."""

    def __init__(self, design: NetworkDesign, seeds: Sequence[int]) -> None:
        super().__init__()
        self.design = design
        drawn = [sample_initial_weights(design, seed) for seed in seeds]
        for name in drawn[0]:
            stacked = np.stack([weights[name] for weights in drawn])
            self.register_parameter(name, nn.Parameter(torch.from_numpy(stacked).float()))

    def weights_of_seed(self, index: int) -> dict[str, Array]:
        """The weights of one seed, in float64."""
        named = self.named_parameters()
        return {name: values[index].detach().double().numpy() for name, values in named}

    def forward(self, points: Tensor, drop: Drop) -> Tensor:
        """The next points [s, b, t, 2] from points [s, b, t, 2]."""
        switches = self.design.switches
        hidden = drop(self.apply_layer_norm("embedding", self.apply_linear_layer("embed", points)))
        update = drop(self.apply_attention(hidden, drop))
        hidden = self.apply_layer_norm("attention", hidden + update if switches.skip else update)
        if switches.mlp:
            inner = nn.functional.gelu(self.apply_linear_layer("in", hidden), approximate="tanh")
            update = drop(self.apply_linear_layer("out", inner))
            hidden = self.apply_layer_norm("mlp", hidden + update if switches.mlp_skip else update)
        return self.apply_linear_layer("readout", drop(hidden))

    def apply_attention(self, hidden: Tensor, drop: Drop) -> Tensor:
        queries, keys, values = (self.project_states_to_heads(name, hidden) for name in "qkv")
        logits = queries @ keys.transpose(-1, -2) / math.sqrt(queries.shape[-1])
        mixed = self.average_values_by_softmax(logits, values, drop)
        output = torch.einsum("shbtk,shkf->sbtf", mixed, self.get_parameter("w_o"))
        return output + self.get_parameter("b_o")[:, None, None]

    def average_values_by_softmax(self, logits: Tensor, values: Tensor, drop: Drop) -> Tensor:
        """The values [s h b t k], weighed."""
        mixed: Tensor = drop(torch.softmax(logits, dim=-1)) @ values
        return mixed

    def project_states_to_heads(self, name: str, hidden: Tensor) -> Tensor:
        projected = torch.einsum("sbtf,shfk->shbtk", hidden, self.get_parameter(f"w_{name}"))
        return projected + self.get_parameter(f"b_{name}")[:, :, None, None]

    def apply_linear_layer(self, name: str, states: Tensor) -> Tensor:
        product = torch.einsum("sbtf,sfg->sbtg", states, self.get_parameter(f"w_{name}"))
        return product + self.get_parameter(f"b_{name}")[:, None, None]

    def apply_layer_norm(self, name: str, states: Tensor) -> Tensor:
        normed = nn.functional.layer_norm(states, states.shape[-1:], eps=NORM_EPSILON)
        gain, shift = (self.get_parameter(f"{name}_{part}") for part in ("gain", "shift"))
        return normed * gain[:, None, None] + shift[:, None, None]


def sample_initial_weights(design: NetworkDesign, seed: int) -> dict[str, Array]:
    """As released: values and outputs uniform to ±1/√fan-in, all other weights Gaussian and small, biases zero."""
    width, stream = design.width, np.random.default_rng(seed)
    key = width // HEADS

    def sample_gaussian_weights(*shape: int) -> Array:
        return stream.normal(scale=INIT, size=shape)

    def sample_uniform_weights(*shape: int) -> Array:
        return stream.uniform(-1.0, 1.0, size=shape) / math.sqrt(width)

    weights = {
        "w_embed": sample_gaussian_weights(2, width),
        "w_readout": sample_gaussian_weights(width, 2),
    }
    weights |= {
        "w_q": sample_gaussian_weights(HEADS, width, key),
        "w_k": sample_gaussian_weights(HEADS, width, key),
    }
    weights |= {
        "w_v": sample_uniform_weights(HEADS, width, key),
        "w_o": sample_uniform_weights(HEADS, key, width),
    }
    if design.switches.mlp:
        weights |= {
            "w_in": sample_gaussian_weights(width, width),
            "w_out": sample_gaussian_weights(width, width),
        }
    sizes: dict[str, tuple[int, ...]] = {"b_embed": (width,), "b_readout": (2,), "b_o": (width,)}
    sizes |= {f"b_{name}": (HEADS, key) for name in "qkv"}
    norms = ["embedding", "attention"]
    if design.switches.mlp:
        sizes |= {"b_in": (width,), "b_out": (width,)}
        norms.append("mlp")
    sizes |= {f"{norm}_shift": (width,) for norm in norms}
    weights |= {name: np.zeros(size) for name, size in sizes.items()}
    return weights | {f"{norm}_gain": np.ones(width) for norm in norms}


class Dropout:
    """Dropout that depends on seed and step only, not on other draws or on the other seeds of the
    batch."""

    def __init__(self, rate: float, seeds: Sequence[int], step: int) -> None:
        self.rate = rate
        self.streams = [np.random.default_rng([seed, step]) for seed in seeds]

    def __call__(self, states: Tensor) -> Tensor:
        drawn = [stream.random(states.shape[1:], dtype=np.float32) for stream in self.streams]
        mask = torch.from_numpy(np.stack(drawn) >= self.rate)
        return states * mask / (1.0 - self.rate)


def keep_states_without_dropout(states: Tensor) -> Tensor:
    """No dropout."""
    return states


def build_training_loss(
    network: BatchedCircleNetworks, seeds: Sequence[int]
) -> Callable[[int], Tensor]:
    """The squared distance to the next pair, summed over a batch and all seeds; seeds do not
    interact."""
    design = network.design
    taught = torch.from_numpy(compute_arc_positions(PAIRS + 1)).float()
    inputs = build_training_inputs(design, taught)

    def compute_batch_loss(step: int) -> Tensor:
        begin = step % BATCHES * BATCH
        end = min(begin + BATCH, PAIRS)
        drop = (
            Dropout(design.dropout, seeds, step) if design.dropout else keep_states_without_dropout
        )
        batch = inputs[begin:end].expand(len(seeds), -1, -1, -1)
        missed: Tensor = network(batch, drop) - taught[begin + 1 : end + 1]
        return missed.square().sum()

    return compute_batch_loss


def build_training_inputs(design: NetworkDesign, taught: Tensor) -> Tensor:
    """The input for each pair; where predictions are added up, the pair plus the previous batch's,
    as released."""
    pairs = taught[:PAIRS]
    if not design.running_sum:
        return pairs
    before = torch.cat([torch.zeros_like(pairs[:BATCH]), pairs[:-BATCH]])
    return pairs + before


def compute_training_losses(network: BatchedCircleNetworks, seeds: Sequence[int]) -> list[float]:
    """Mean squared error of a coordinate over all that is taught, without dropout, per seed."""
    taught = torch.from_numpy(compute_arc_positions(PAIRS + 1)).float()
    with torch.no_grad():
        batch = build_training_inputs(network.design, taught).expand(len(seeds), -1, -1, -1)
        errors = (
            (network(batch, keep_states_without_dropout) - taught[1:]).square().mean(dim=(1, 2, 3))
        )
    return [float(error) for error in errors]
