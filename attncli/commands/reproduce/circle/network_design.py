"""What a network is made of: a layer between a linear map into its width and one back to the plane.

    hidden = LN(points W_embed + b)
    hidden = LN(hidden + Attention(hidden))      the skip where the variant has it
    hidden = LN(hidden + MLP(hidden))            where the variant has an MLP, with its own skip
    points = hidden W_readout + b

The released script never removes the layer's skip. What it calls skip adds the network's predictions up: the input of a
step is the start plus all predictions so far, and in training a batch plus the batch before it. It trains with dropout.
Its GELU has erf where this one has its usual approximation by tanh.
"""

from dataclasses import dataclass, replace

from attncli.errors import UsageError
from attncli.networks.ablation_variants import VARIANTS, AblationSwitches, require_known_switches
from attncli.networks.network_spec import NetworkSpec

HEADS = 2
NORM_EPSILON = 1e-12
DROPOUT = 0.1
"""As released."""


KNOWN = ("skip", "mlp", "mlp_skip")
"""Switches that these networks have."""


@dataclass(frozen=True)
class NetworkDesign:
    """The parts and sizes of one network, without its weights."""

    width: int
    switches: AblationSwitches
    """Of the layer."""
    running_sum: bool = False
    """A step's input is the sum of the start and all predictions so far."""
    dropout: float = 0.0

    def __post_init__(self) -> None:
        require_known_switches(self.switches, KNOWN, "a network of the circle")
        if self.width < HEADS or self.width % HEADS:
            raise UsageError(
                f"`width={self.width!r}` must be a positive multiple of the {HEADS} heads."
            )

    @property
    def synthetic_network_spec(self) -> NetworkSpec:
        """The layer as a synthetic network; its norms are applied separately, since they have gains
        and shifts."""
        return NetworkSpec(
            layers=1,
            tokens=2,
            width=self.width,
            heads=HEADS,
            mlp_width=self.width,
            activation="gelu",
            biases=True,
        )


def make_architecture_of_variant(width: int, variant: str) -> NetworkDesign:
    """The design that the variant's name states, without dropout."""
    return NetworkDesign(width, VARIANTS[variant])


def make_published_architecture(width: int, variant: str) -> NetworkDesign:
    """The design that the released script runs under that name."""
    switches = VARIANTS[variant]
    if switches.mlp != switches.mlp_skip:
        raise UsageError(f"`as_published` has no {variant}: the released MLP keeps its skip.")
    return NetworkDesign(width, replace(switches, skip=True), switches.skip, DROPOUT)
