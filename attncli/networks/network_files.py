"""Networks in safetensors files, with tensor names that other programs can rely on.

    x [token, feature]
    layers.{l}.w_q, .w_k [head, feature, key]    layers.{l}.w_v [head, feature, value]    layers.{l}.w_o [head, value, feature]
    layers.{l}.mlp.w_in [feature, hidden]        layers.{l}.mlp.w_out [hidden, feature]
    and where the network has them: b_q, b_k, b_v, b_o, mlp.b_in, mlp.b_out, w_g, relative_bias

The kinds of the network's parts are strings in the metadata. Logits carry 1/√key width and no further scale.
"""

import math
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np

from attncli.errors import InputError, UsageError, format_count
from attncli.io.safetensors_arrays import StoredArrays
from attncli.maths.common_row_arithmetic.arrays_with_integer_exponent import Array
from attncli.networks.ablation_variants import SETS, VARIANTS
from attncli.networks.network_spec import KINDS, NetworkSpec
from attncli.networks.network_weights import Layer, Network
from attncli.resource_limits import parse_whole_number

FORMAT = "attn-network"
FARTHEST_APART = 900
"""log2 of the largest number of a tensor over the smallest."""
IN_MLP = ("w_in", "w_out", "b_in", "b_out")
OPTIONAL = tuple(Layer._field_defaults)


def format_weight_tensor_name(layer: int, weight: str) -> str:
    return f"layers.{layer}.{'mlp.' if weight in IN_MLP else ''}{weight}"


def collect_network_tensors(network: Network) -> dict[str, Array]:
    """Everything a network file holds, by tensor name."""
    named = {"x": network.embeddings()}
    for index in range(network.spec.layers):
        for weight, array in network.layer_weights(index)._asdict().items():
            if array is not None:
                named[format_weight_tensor_name(index, weight)] = array
    return named


def build_network_metadata(network: Network, variant: str) -> dict[str, str]:
    spec = network.spec
    kinds = {name: getattr(spec, name) for name in KINDS}
    if spec.sinkhorn_rounds:
        kinds["attention"] = (
            f"sinkhorn:{spec.sinkhorn_rounds}"  # other programs need not know our default
        )
    return {
        "format": FORMAT,
        "version": "1",
        "layers": str(spec.layers),
        "seed": str(network.seed),
        "init_scale": repr(spec.init_scale),
        "variant": variant,
        **kinds,
    }


class FileNetwork:
    """A network read layer by layer; sizes, names and kinds are checked when it is opened."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.file = StoredArrays(path)
        self.metadata: Mapping[str, str] = self.file.metadata
        if self.metadata.get("format") != FORMAT:
            raise InputError(f"{path} is not a network file: `generate_network(FILE)` writes one.")
        self.names = frozenset(self.file.names())
        self.spec = self.read_network_spec()
        self.seed = self.read_number_from_metadata("seed")
        self.check_tensor_shapes()

    @property
    def ablation_variant(self) -> str:
        """The variant or set of variants that the network was generated as."""
        name = self.metadata.get("variant", "paper")
        if name not in (*VARIANTS, *SETS):
            raise InputError(f"{self.path} names the unknown variant '{name}'.")
        return name

    def embeddings(self) -> Array:
        return self.read_tensor("x")

    def layer_weights(self, index: int) -> Layer:
        found = {
            weight: self.read_tensor(name)
            for weight in Layer._fields
            if (name := format_weight_tensor_name(index, weight)) in self.names
        }
        return Layer(**found)

    def read_tensor(self, name: str) -> Array:
        array: Array = self.file.read_tensor(name).astype(np.float64, copy=False)
        if not np.isfinite(array).all():
            raise InputError(f"{self.path}: tensor {name} holds NaN or infinite values.")
        refuse_distant_weight_magnitudes(f"{self.path}: tensor {name}", array)
        return array

    def read_tensor_shape(self, name: str) -> tuple[int, ...]:
        if name not in self.names:
            raise InputError(f"{self.path}: tensor {name} is missing.")
        if self.file.dtype(name) not in ("F64", "F32"):
            raise InputError(
                f"{self.path}: tensor {name} is {self.file.dtype(name)}, not F64 or F32."
            )
        return self.file.shape(name)

    def read_number_from_metadata(self, name: str) -> int:
        text = self.metadata.get(name, "")
        found = parse_whole_number(text)
        if found is None:
            raise InputError(
                f"{self.path}: metadata '{name}' must be a whole number, not '{text}'."
            )
        return found

    def read_network_spec(self) -> NetworkSpec:
        heads, width, d = self.require_tensor_shape("layers.0.w_q", 3)
        tokens, _ = self.require_tensor_shape("x", 2)
        try:
            return NetworkSpec(
                layers=self.read_number_from_metadata("layers"),
                tokens=tokens,
                width=width,
                heads=heads,
                key_width=d,
                mlp_width=self.require_tensor_shape("layers.0.mlp.w_in", 2)[1],
                biases="layers.0.b_q" in self.names,
                init_scale=float(self.metadata.get("init_scale", "1.0")),
                **{name: self.metadata.get(name, "") for name in KINDS},
            )
        except (UsageError, ValueError) as error:
            raise InputError(f"{self.path}: {error}") from None

    def require_tensor_shape(self, name: str, axes: int) -> tuple[int, ...]:
        shape = self.read_tensor_shape(name)
        if len(shape) != axes:
            raise InputError(
                f"{self.path}: tensor {name} has {format_count(len(shape), 'axis', 'axes')}, not {axes}."
            )
        return shape

    def check_tensor_shapes(self) -> None:
        for name, expected in self.iter_expected_tensor_shapes():
            if self.read_tensor_shape(name) != expected:
                raise InputError(
                    f"{self.path}: tensor {name} has shape {list(self.read_tensor_shape(name))}, "
                    f"expected {list(expected)}."
                )

    def iter_expected_tensor_shapes(self) -> Iterator[tuple[str, tuple[int, ...]]]:
        spec = self.spec
        yield "x", (spec.tokens, spec.width)
        for index in range(spec.layers):
            for weight, expected in list_weight_shapes(spec).items():
                name = format_weight_tensor_name(index, weight)
                if (
                    name in self.names
                    or weight not in OPTIONAL
                    or is_weight_required_by_network(weight, spec)
                ):
                    yield name, expected


def refuse_distant_weight_magnitudes(what: str, array: Array) -> None:
    """Refuse weights next to others that are 10^270 times as large: their digits would be lost."""
    sizes = np.abs(array[array != 0.0])
    if sizes.size and math.frexp(sizes.max())[1] - math.frexp(sizes.min())[1] > FARTHEST_APART:
        raise InputError(
            f"{what} holds numbers from {sizes.min():.3g} to {sizes.max():.3g}: "
            "float64 cannot keep the digits of both in a product. Set the small ones to 0."
        )


def is_weight_required_by_network(weight: str, spec: NetworkSpec) -> bool:
    """Whether an optional weight is needed by the network's own kinds."""
    return (weight == "w_g" and spec.attention == "gated") or (
        weight == "relative_bias" and spec.positions == "relative"
    )


def list_weight_shapes(spec: NetworkSpec) -> dict[str, tuple[int, ...]]:
    inward = (spec.heads, spec.width, spec.head_width)
    per_head = (spec.heads, spec.head_width)
    return {
        "w_q": inward,
        "w_k": inward,
        "w_v": inward,
        "w_o": (spec.heads, spec.head_width, spec.width),
        "w_in": (spec.width, spec.mlp_hidden_size),
        "w_out": (spec.mlp_hidden_size, spec.width),
        "b_q": per_head,
        "b_k": per_head,
        "b_v": per_head,
        "b_o": (spec.width,),
        "b_in": (spec.mlp_hidden_size,),
        "b_out": (spec.width,),
        "w_g": inward,
        "relative_bias": (spec.heads, 2 * spec.tokens - 1),
    }
