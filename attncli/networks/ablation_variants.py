"""Variants: which parts of every block are switched on.

The paper's figure has four; its `SAN+MLP` keeps the MLP's own skip. The other combinations have names too, so that
every column of a report says exactly what was removed.

In a trained model attention is whatever mixes tokens: where layers hold a recurrence or a convolution in its place or beside
it, that stays on as attention does, `skip` is its skip too, and a note names it. An MLP is what works on each token alone;
several of one block go off together.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields, replace

from attncli.errors import require_known_names
from attncli.networks.network_spec import NetworkSpec

OF_MODELS = {"of": "models"}
"""Marks a switch that synthetic networks do not have."""


@dataclass(frozen=True, slots=True)
class AblationSwitches:
    """Parts of a block that can be switched off separately."""

    skip: bool = True
    """The attention's skip, and that of whatever else mixes tokens."""
    mlp: bool = True
    mlp_skip: bool = True
    """The MLP's skip; meaningless without an MLP."""
    remove_outlier: bool = False
    """Attention acts as A - 11^T/n instead of A."""
    norms: bool = field(default=True, metadata=OF_MODELS)
    """The norms of a block, but not those of queries and keys; trained models only, as synthetic networks have a choice of norm."""
    mlp_norm: bool = field(default=False, metadata=OF_MODELS)
    """With the MLP off, the norm after its skip stays; of a trained model only."""
    as_published: bool = field(default=False, metadata=OF_MODELS)
    """With the MLP off, ALBERT keeps LN(gelu(y) + y), as the published code does; of a trained model only."""


VARIANTS: Mapping[str, AblationSwitches] = {
    "SAN": AblationSwitches(skip=False, mlp=False, mlp_skip=False),
    "SAN+MLP": AblationSwitches(skip=False),
    "SAN+skip": AblationSwitches(mlp=False, mlp_skip=False),
    "transformer": AblationSwitches(),
    "SAN+MLP-noskip": AblationSwitches(skip=False, mlp_skip=False),
    "SAN+skip+MLP-noskip": AblationSwitches(mlp_skip=False),
}

SETS: Mapping[str, tuple[str, ...]] = {
    "paper": ("SAN", "SAN+MLP", "SAN+skip", "transformer"),
    "pure": ("SAN", "SAN+MLP-noskip", "SAN+skip", "transformer"),
    "all": tuple(VARIANTS),
}

NORMLESS_SUFFIX = "-norms"
"""`SAN-norms`: the same variant without norms."""

MLP_NORM_SUFFIX = "+mlpnorm"
"""`SAN+mlpnorm`: the MLP is off, the norm after it is not."""

FOR_MODELS_ONLY = tuple(
    each.name for each in fields(AblationSwitches) if each.metadata == OF_MODELS
)
"""Switches that synthetic networks do not have."""

OUTLIER_SUFFIX = "-outlier"
"""`SAN-outlier`: the same variant with the outlier of attention, 11^T/n, removed."""


def require_known_switches(switches: AblationSwitches, known: Collection[str], reader: str) -> None:
    """Require callers to name the switches they know: one that they do not know must not be ignored."""
    for each in fields(AblationSwitches):
        if each.name not in known and getattr(switches, each.name) != each.default:
            raise NotImplementedError(f"{reader} does not know the switch '{each.name}'")


def is_collapse_bound_applicable(spec: NetworkSpec, switches: AblationSwitches) -> bool:
    """Whether the theorem applies: softmax attention on content alone, unmasked, without norms or
    attention skips."""
    plain = (spec.norm, spec.mask, spec.positions, spec.attention)
    return plain == ("none", "none", "none", "softmax") and not (
        switches.skip or switches.remove_outlier
    )


def parse_ablation_variants(names: Iterable[str]) -> dict[str, AblationSwitches]:
    """Parse variants by name or as sets, in the order given; a repeated name keeps its first meaning."""
    chosen: dict[str, AblationSwitches] = {}
    for name in names:
        require_known_names("variant", [name], [*VARIANTS, *SETS])
        for member in SETS.get(name, (name,)):
            switches = VARIANTS[member]
            published = name != "pure" and not switches.mlp
            chosen.setdefault(member, replace(switches, as_published=published))
    return chosen


def select_switches_of_networks(switches: AblationSwitches) -> dict[str, bool]:
    """The switches as a report on synthetic networks describes them."""
    return {name: on for name, on in asdict(switches).items() if name not in FOR_MODELS_ONLY}


def make_variant_from_switches(
    skip: bool | None, mlp: bool | None, mlp_skip: bool | None
) -> dict[str, AblationSwitches]:
    """The one variant that the switches describe; switches left out are on."""
    mlp = mlp is not False
    requested = AblationSwitches(skip is not False, mlp, mlp and mlp_skip is not False)
    return {name: switches for name, switches in VARIANTS.items() if switches == requested}


def switch_off_norm_layers(variants: Mapping[str, AblationSwitches]) -> dict[str, AblationSwitches]:
    """Every variant with the norms of its blocks off."""
    return {
        name + NORMLESS_SUFFIX: replace(switches, norms=False)
        for name, switches in variants.items()
    }


def keep_norm_after_mlp(variants: Mapping[str, AblationSwitches]) -> dict[str, AblationSwitches]:
    """Every variant, with the norm after its MLP left where the MLP is off."""
    return {
        name if switches.mlp else name + MLP_NORM_SUFFIX: replace(
            switches, mlp_norm=not switches.mlp
        )
        for name, switches in variants.items()
    }


def add_variants_without_outlier(
    variants: Mapping[str, AblationSwitches],
) -> dict[str, AblationSwitches]:
    """Every variant, followed by the same variant without the outlier."""
    chosen: dict[str, AblationSwitches] = {}
    for name, switches in variants.items():
        chosen[name] = switches
        chosen[name + OUTLIER_SUFFIX] = replace(switches, remove_outlier=True)
    return chosen
