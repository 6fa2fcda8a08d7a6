"""Sizes and kinds of a synthetic network."""

from collections.abc import Mapping
from dataclasses import dataclass

from attncli.errors import UsageError, make_unknown_name_error, quote_parameter_name
from attncli.resource_limits import parse_whole_number

NORM_EPSILON = 1e-5
ROPE_BASE = 10000.0
SINKHORN_ROUNDS = 10

KINDS: Mapping[str, Mapping[str, str]] = {
    "norm": {"none": "", "layer": "", "rms": ""},
    "norm_position": {"pre": "", "post": ""},
    "mask": {"none": "", "causal": "", "window": "W"},
    "positions": {"none": "", "relative": "", "rope": ""},
    "attention": {"softmax": "", "gated": "", "sinkhorn": "ROUNDS"},
    "activation": {"relu": "", "gelu": "", "silu": ""},
}
"""Field → its kinds → the whole number that may follow the kind after a colon."""

NUMBER_NEEDED = ("window",)

LARGEST_SIZE = 10**9
MOST_ROUNDS = 10_000
"""The most rounds of Sinkhorn: each is a pass over every map, and maps not converged by then never will be."""
LEAST_PAIRS = 10**5
"""Pairs that take as long as the smallest layer does."""
SMALLEST_SCALE = 1e-100

SIZES = ("layers", "tokens", "width", "heads", "key_width", "mlp_width")


SINKHORN_NEEDS_ALL = (
    "`attention='sinkhorn'` needs `mask='none'`: the only causal matrix whose rows and columns all sum to one is the "
    "identity."
)


@dataclass(frozen=True, slots=True)
class NetworkSpec:
    """Sizes and kinds; together with a seed they determine every weight."""

    layers: int = 12
    tokens: int = 64
    width: int = 64
    heads: int = 4
    key_width: int | None = None
    """Query, key and value width of one head; None = width / heads."""
    mlp_width: int | None = None
    """None = 4 width."""
    norm: str = "none"
    norm_position: str = "pre"
    mask: str = "none"
    positions: str = "none"
    attention: str = "softmax"
    activation: str = "relu"
    biases: bool = False
    init_scale: float = 1.0

    def __post_init__(self) -> None:
        for name in SIZES:
            size = getattr(self, name)
            if size is not None and not 1 <= size <= LARGEST_SIZE:
                raise UsageError(
                    f"{quote_parameter_name(name)} must be from 1 to {LARGEST_SIZE:,}, not {size}."
                )
        if not SMALLEST_SCALE <= self.init_scale <= 1.0 / SMALLEST_SCALE:
            raise UsageError(
                f"`init_scale` must be from {SMALLEST_SCALE:g} to {1.0 / SMALLEST_SCALE:g}, "
                f"not {self.init_scale:g}."
            )
        for name in KINDS:
            parse_option_kind_and_number(name, getattr(self, name))
        if self.key_width is None and self.width % self.heads:
            raise UsageError(
                f"`heads={self.heads!r}` does not divide `width={self.width!r}`: "
                "choose heads that do, or give `key_width`."
            )
        if self.positions == "rope" and self.head_width % 2:
            raise UsageError(
                f"`positions='rope'` turns pairs of features: key width {self.head_width} must be even."
            )
        if self.sinkhorn_rounds and self.visible_keys_per_query is not None:
            raise UsageError(SINKHORN_NEEDS_ALL, about=["attention", "mask"])

    @property
    def head_width(self) -> int:
        """Query, key and value width of one head."""
        return self.key_width or self.width // self.heads

    @property
    def mlp_hidden_size(self) -> int:
        """Width inside the MLP."""
        return self.mlp_width or 4 * self.width

    @property
    def visible_keys_per_query(self) -> int | None:
        """How many keys a query sees, the last one itself; None = all keys, before and after."""
        kind, size = parse_option_kind_and_number("mask", self.mask)
        return {"none": None, "causal": self.tokens, "window": size}[kind]

    @property
    def sinkhorn_rounds(self) -> int:
        """Sinkhorn rounds; 0 for softmax attention."""
        kind, rounds = parse_option_kind_and_number("attention", self.attention)
        return (rounds or SINKHORN_ROUNDS) if kind == "sinkhorn" else 0

    @property
    def forward_pass_cost(self) -> int:
        """Products of a query and a key in a forward pass, which take most of its time, and a constant for each
        layer."""
        of_layer = max(self.heads * self.tokens**2, LEAST_PAIRS)
        return self.layers * of_layer * max(1, self.sinkhorn_rounds)

    @property
    def layer_weight_bytes(self) -> int:
        """Memory of one layer's weights."""
        return 8 * (
            4 * self.heads * self.width * self.head_width + 2 * self.width * self.mlp_hidden_size
        )


def parse_option_kind_and_number(field: str, text: str) -> tuple[str, int | None]:
    """`window:8` → ("window", 8); `causal` → ("causal", None)."""
    kind, colon, number = text.partition(":")
    kinds = KINDS[field]
    if kind not in kinds:
        raise make_unknown_name_error(quote_parameter_name(field), text, kinds)
    if not colon and kind not in NUMBER_NEEDED:
        return kind, None
    size = parse_whole_number(number) or 0
    most = MOST_ROUNDS if kind == "sinkhorn" else LARGEST_SIZE
    if not kinds[kind] or not 1 <= size <= most:
        forms = ", ".join(name + (f":{n}" if n else "") for name, n in kinds.items())
        raise UsageError(
            f"`{field}={text!r}`: there are {forms} (a whole number from 1 to {most:,})."
        )
    return kind, size
