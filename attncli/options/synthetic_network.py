"""Options of synthetic networks, and of the variants of any network that are compared."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

from attncli.declare.option_declarations import NETWORKS, Applies, declare_option
from attncli.networks.ablation_variants import (
    SETS,
    VARIANTS,
    AblationSwitches,
    add_variants_without_outlier,
    keep_norm_after_mlp,
    make_variant_from_switches,
    parse_ablation_variants,
    switch_off_norm_layers,
)
from attncli.networks.network_spec import KINDS, SINKHORN_NEEDS_ALL, NetworkSpec
from attncli.options.model_and_input import OF_MODELS
from attncli.options.run_and_output import ANY_RUN, OF_NETWORKS, split_comma_separated_names
from attncli.options.value_completion import make_name_completer


def format_layer_part_kinds(field: str) -> str:
    """The kinds of a part, as a metavar: `none|causal|window:W`."""
    forms = (name + (f":{number}" if number else "") for name, number in KINDS[field].items())
    return "|".join(forms)


MASKS = tuple(f"mask:{kind}" for kind in KINDS["mask"] if kind != "none")


def declare_layer_part_option(field: str, help: str, *applies: Applies) -> Any:
    """Declare an option whose value is one of the kinds of a part."""
    return network_option(
        metavar=format_layer_part_kinds(field),
        applies=(OF_NETWORKS, *applies),
        help=f"{help} {format_network_field_default(field)}",
        complete=make_name_completer(lambda: list(KINDS[field])),
    )


def format_network_field_default(field: str) -> str:
    return f"[default: {NetworkSpec.__dataclass_fields__[field].default}]"


complete_variant = make_name_completer(lambda: [*SETS, *VARIANTS])


def make_rule_excluding_swept_size(name: str, *others: Applies) -> tuple[Applies, ...]:
    """Of a size that `sweep` may vary."""
    why = "{name} is what `sweep` varies: leave it out."
    return (*(others or (OF_NETWORKS,)), Applies(excludes=(f"sweep:{name}",), why=why))


network_option = partial(declare_option, panel="Synthetic network", applies=OF_NETWORKS)


variant_option = partial(declare_option, panel="Variants")


@dataclass(frozen=True)
class NetworkOptions:
    """The synthetic network. `None` = not set, so that a network file can refuse what it fixes
    itself."""

    layers: int | None = network_option(
        usual=True,
        applies=make_rule_excluding_swept_size("layers"),
        help=f"Number of blocks. {format_network_field_default('layers')}",
    )
    tokens: int | None = network_option(
        usual=True,
        applies=make_rule_excluding_swept_size("tokens", ANY_RUN),
        of_any_model=True,
        help=f"Number of tokens {format_network_field_default('tokens')}, or maximum length of a model's texts.",
    )
    width: int | None = network_option(
        usual=True,
        applies=make_rule_excluding_swept_size("width"),
        help=f"Features per token. {format_network_field_default('width')}",
    )
    heads: int | None = network_option(
        usual=True,
        applies=make_rule_excluding_swept_size("heads"),
        help=f"Heads per layer. {format_network_field_default('heads')}",
    )
    key_width: int | None = network_option(
        help="Width of queries, keys and values per head. [default: width/heads]"
    )
    mlp_width: int | None = network_option(help="Hidden width of the MLP. [default: 4 × width]")
    norm: str | None = declare_layer_part_option("norm", "Norm of every sub-block.")
    norm_position: str | None = declare_layer_part_option(
        "norm_position", "Norm before the sub-block (pre), or after its skip (post)."
    )
    mask: str | None = declare_layer_part_option("mask", "Attention mask.")
    positions: str | None = declare_layer_part_option(
        "positions", "Position encoding: a learned bias per offset, or rotary."
    )
    attention: str | None = declare_layer_part_option(
        "attention",
        "gated multiplies each head's output by a sigmoid; sinkhorn normalises rows and columns.",
        Applies(only=("sinkhorn",), excludes=MASKS, why=SINKHORN_NEEDS_ALL),
    )
    activation: str | None = declare_layer_part_option("activation", "Activation of the MLP.")
    biases: bool | None = network_option(help="Random biases, or none.")
    init_scale: float | None = network_option(
        applies=make_rule_excluding_swept_size("init-scale"),
        help=f"Factor on the standard deviation of all weights. {format_network_field_default('init_scale')}",
    )

    def build_network_specification(self) -> NetworkSpec:
        """The network that the options describe; what is not set has the default of networks."""
        return NetworkSpec(
            **{name: value for name, value in asdict(self).items() if value is not None}
        )


@dataclass(frozen=True)
class VariantSwitchOptions:
    """One variant, by its switches; unset ones are on."""

    skip: bool | None = variant_option(
        help="One variant: with the attention's skip connection, or without."
    )
    mlp: bool | None = variant_option(help="One variant: with the MLP, or without.")
    mlp_skip: bool | None = variant_option(
        applies=Applies(
            excludes=("mlp:False",),
            unless=("False",),
            why="`mlp_skip` needs the MLP that `mlp=False` removes: drop one of them.",
        ),
        help="One variant: with the MLP's own skip connection, or without.",
    )

    def list_options_that_are_set(self) -> list[str]:
        """The switches that are set, as they are spelt."""
        return [name for name, value in asdict(self).items() if value is not None]

    def choose_ablation_variants(self) -> dict[str, AblationSwitches]:
        return make_variant_from_switches(self.skip, self.mlp, self.mlp_skip)


@dataclass(frozen=True)
class VariantNames:
    """Which variants of the network are compared."""

    variants: list[str] = variant_option(
        default=[],
        metavar="NAME,…",
        complete=complete_variant,
        usual=True,
        applies=Applies(
            excludes=("skip", "mlp", "mlp_skip"),
            why="give `variants` or single switches such as `skip=False`, not both.",
        ),
        help="Variants to compare (see `attn list variants`). [default: paper]",
    )


@dataclass(frozen=True)
class VariantOptions(VariantNames):
    """Which variants of the network are compared, and whether with their outlier removed."""

    remove_outlier: bool = variant_option(
        default=False,
        applies=Applies(to=NETWORKS),
        help="Also run every variant with A - 11^T/n in place of A, the published remedy.",
    )

    def choose_ablation_variants(
        self, switches: VariantSwitchOptions, default: str = "paper"
    ) -> dict[str, AblationSwitches]:
        """The variants by name; a saved network has its own default."""
        chosen = choose_ablation_by_name_or_switch(self, switches, default)
        return add_variants_without_outlier(chosen) if self.remove_outlier else chosen


def choose_ablation_by_name_or_switch(
    variants: VariantNames, switches: VariantSwitchOptions, default: str = "paper"
) -> dict[str, AblationSwitches]:
    """The variants by name or by single switches, which exclude each other."""
    if switches.list_options_that_are_set():
        return switches.choose_ablation_variants()
    return parse_ablation_variants(split_comma_separated_names(variants.variants) or [default])


model_switch = partial(variant_option, applies=OF_MODELS)


@dataclass(frozen=True)
class NormSwitchOptions:
    """Parts that only a trained model's blocks have."""

    no_norms: bool = model_switch(default=False, help="Remove the blocks' norms in every variant.")
    mlp_norm: bool = model_switch(
        default=False,
        applies=(
            OF_MODELS,
            Applies(
                excludes=("no_norms",),
                why="{other} takes out what {name} leaves: drop one of them.",
            ),
        ),
        help="Where the MLP is removed, keep the norm after it.",
    )

    def switch_layer_norms_in_variants(
        self, variants: Mapping[str, AblationSwitches]
    ) -> Mapping[str, AblationSwitches]:
        variants = switch_off_norm_layers(variants) if self.no_norms else variants
        return keep_norm_after_mlp(variants) if self.mlp_norm else variants

    def list_options_that_are_set(self) -> list[str]:
        return [name for name, value in asdict(self).items() if value]
