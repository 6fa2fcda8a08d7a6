"""The weights of a network, one layer at a time, generated from a seed or read from a file.

A network may be far larger than memory: only one layer is in memory at a time.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np

from attncli.maths.common_row_arithmetic.arrays_with_integer_exponent import Array
from attncli.networks.network_spec import NetworkSpec


class Layer(NamedTuple):
    """One block. Axes: w_q, w_k [head, feature, key]; w_v, w_g [head, feature, value]; w_o [head, value, feature]."""

    w_q: Array
    w_k: Array
    w_v: Array
    w_o: Array
    w_in: Array
    """[feature, hidden]"""
    w_out: Array
    """[hidden, feature]"""
    b_q: Array | None = None
    """[head, key], like b_k; b_v [head, value]; b_o, b_out [feature]; b_in [hidden]."""
    b_k: Array | None = None
    b_v: Array | None = None
    b_o: Array | None = None
    b_in: Array | None = None
    b_out: Array | None = None
    w_g: Array | None = None
    relative_bias: Array | None = None
    """[head, offset], offset = key - query + tokens - 1."""


class Network(Protocol):
    """A source of a network's weights."""

    spec: NetworkSpec
    seed: int

    def embeddings(self) -> Array:
        """State 0 [token, feature]."""

    def layer_weights(self, index: int) -> Layer: ...


@dataclass(eq=False)
class GeneratedNetwork:
    """Gaussian weights: x ~ N(0, 1); every matrix ~ N(0, init_scale² / fan-in); biases like a row of one.

    Each layer has a random stream of its own, so that layer 7 is the same whatever the depth, and switching biases or
    gates on leaves the other weights as they are.
    """

    spec: NetworkSpec
    seed: int

    def embeddings(self) -> Array:
        stream = np.random.default_rng([self.seed, 0])
        return stream.standard_normal((self.spec.tokens, self.spec.width))

    def layer_weights(self, index: int) -> Layer:
        spec = self.spec
        stream = np.random.default_rng([self.seed, index + 1])

        def sample_gaussian_matrix(fan_in: int, *shape: int) -> Array:
            return stream.standard_normal(shape) * float(spec.init_scale / np.sqrt(fan_in))

        inward = (spec.heads, spec.width, spec.head_width)
        return Layer(
            w_q=sample_gaussian_matrix(spec.width, *inward),
            w_k=sample_gaussian_matrix(spec.width, *inward),
            w_v=sample_gaussian_matrix(spec.width, *inward),
            w_o=sample_gaussian_matrix(
                spec.heads * spec.head_width, spec.heads, spec.head_width, spec.width
            ),
            w_in=sample_gaussian_matrix(spec.width, spec.width, spec.mlp_hidden_size),
            w_out=sample_gaussian_matrix(spec.mlp_hidden_size, spec.mlp_hidden_size, spec.width),
            **self.sample_optional_weights(sample_gaussian_matrix),
        )

    def sample_optional_weights(self, gaussian: Callable[..., Array]) -> dict[str, Array]:
        """The weights that only some kinds of network have, drawn after all others."""
        spec = self.spec
        extras: dict[str, Array] = {}
        if spec.biases:
            for name in ("b_q", "b_k", "b_v"):
                extras[name] = gaussian(spec.width, spec.heads, spec.head_width)
            for name, size in (
                ("b_o", spec.width),
                ("b_in", spec.mlp_hidden_size),
                ("b_out", spec.width),
            ):
                extras[name] = gaussian(spec.width, size)
        if spec.attention == "gated":
            extras["w_g"] = gaussian(spec.width, spec.heads, spec.width, spec.head_width)
        if spec.positions == "relative":
            extras["relative_bias"] = gaussian(1, spec.heads, 2 * spec.tokens - 1)
        return extras
