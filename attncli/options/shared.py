"""Options shared by the commands, each declared once, in groups."""

import re
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Annotated, Any

from attncli.declare.applies import ANY_MODEL, NETWORKS, SYNTHETIC, Applies
from attncli.declare.commands import GATE
from attncli.declare.options import WRITES, Option
from attncli.errors import UsageError
from attncli.io.remote_files import is_address
from attncli.networks.spec import KINDS, NetworkSpec
from attncli.networks.variants import (
    SETS,
    VARIANTS,
    Switches,
    parse_variants,
    variant_from_switches,
    with_outlier_removed,
)
from attncli.options.completion import complete_format, complete_names

DEFAULT_SEEDS = 5
MOST_SEEDS = 100_000
INCHES = re.compile(r"(\d{1,3}(?:\.\d{1,4})?)[x×](\d{1,3}(?:\.\d{1,4})?)")
SMALLEST_FIGURE, LARGEST_FIGURE = 1.0, 40.0
"""Inches."""
LARGEST_SEED = 2**63 - 1


def split_names(names: Iterable[str]) -> list[str]:
    """Repeated and comma-separated names as one list."""
    parts = [part.strip() for text in names for part in text.split(",")]
    if "" in parts:
        raise UsageError("there is an empty name in a list of names: drop it.")
    return parts


def format_kinds(field: str) -> str:
    """The kinds of a part, as a metavar: `none|causal|window:W`."""
    forms = (name + (f":{number}" if number else "") for name, number in KINDS[field].items())
    return "|".join(forms)


def kind_option(field: str, help: str) -> Any:
    """Declare an option whose value is one of the kinds of a part."""
    return network_option(
        metavar=format_kinds(field),
        help=f"{help} {default(field)}",
        complete=complete_names(lambda: list(KINDS[field])),
    )


def default(field: str) -> str:
    return f"[default: {NetworkSpec.__dataclass_fields__[field].default}]"


complete_variant = complete_names(lambda: [*SETS, *VARIANTS])

OF_NETWORKS = Applies(to=SYNTHETIC)
ANY_RUN = Applies(to=(*SYNTHETIC, *ANY_MODEL))
"""For generated networks and for model inputs; a network file fixes it."""


def swept(name: str, *others: Applies) -> tuple[Applies, ...]:
    """Of a size that `sweep` may vary."""
    why = "{name} is what `sweep` varies: leave it out."
    return (*(others or (OF_NETWORKS,)), Applies(excludes=(f"sweep:{name}",), why=why))


network_option = partial(Option, panel="Network", applies=OF_NETWORKS)
variant_option = partial(Option, panel="Variants")
output_option = partial(Option, panel="Output")
OF_A_FILE = "{name} is of a figure in a file: name one with `plot`."


@dataclass(frozen=True)
class NetworkOptions:
    """The synthetic network. `None` = not set, so that a network file can refuse what it fixes
    itself."""

    layers: Annotated[
        int | None,
        network_option(
            usual=True, applies=swept("layers"), help=f"Number of blocks. {default('layers')}"
        ),
    ] = None
    tokens: Annotated[
        int | None,
        network_option(
            usual=True,
            applies=swept("tokens", ANY_RUN),
            of_any_model=True,
            help=f"Number of tokens. {default('tokens')}",
        ),
    ] = None
    width: Annotated[
        int | None,
        network_option(
            usual=True, applies=swept("width"), help=f"Features per token. {default('width')}"
        ),
    ] = None
    heads: Annotated[
        int | None,
        network_option(
            usual=True, applies=swept("heads"), help=f"Heads per layer. {default('heads')}"
        ),
    ] = None
    key_width: Annotated[
        int | None,
        network_option(help="Width of queries, keys and values per head. [default: width/heads]"),
    ] = None
    mlp_width: Annotated[
        int | None, network_option(help="Hidden width of the MLP. [default: 4 × width]")
    ] = None
    norm: Annotated[str | None, kind_option("norm", "Norm of every sub-block.")] = None
    norm_position: Annotated[
        str | None,
        kind_option("norm_position", "Norm before the sub-block (pre), or after its skip (post)."),
    ] = None
    mask: Annotated[str | None, kind_option("mask", "Attention mask.")] = None
    positions: Annotated[
        str | None,
        kind_option("positions", "Position encoding: a learned bias per offset, or rotary."),
    ] = None
    attention: Annotated[
        str | None,
        kind_option(
            "attention",
            "gated multiplies each head's output by a sigmoid; sinkhorn normalises rows and columns.",
        ),
    ] = None
    activation: Annotated[str | None, kind_option("activation", "Activation of the MLP.")] = None
    biases: Annotated[
        bool | None, network_option("--biases/--no-biases", help="Random biases, or none.")
    ] = None
    init_scale: Annotated[
        float | None,
        network_option(
            applies=swept("init-scale"),
            help=f"Factor on the standard deviation of all weights. {default('init_scale')}",
        ),
    ] = None

    def given(self) -> dict[str, int | float | str | bool]:
        """The options that are set."""
        return {name: value for name, value in asdict(self).items() if value is not None}


@dataclass(frozen=True)
class SwitchOptions:
    """One variant, by its switches; unset ones are on."""

    skip: Annotated[
        bool | None,
        variant_option(
            "--skip/--no-skip",
            help="Run one variant: with the attention's skip connection, or without.",
        ),
    ] = None
    mlp: Annotated[
        bool | None,
        variant_option("--mlp/--no-mlp", help="Run one variant: with the MLP, or without."),
    ] = None
    mlp_skip: Annotated[
        bool | None,
        variant_option(
            "--mlp-skip/--no-mlp-skip",
            applies=Applies(
                excludes=("mlp:False",),
                unless=("False",),
                why="`mlp_skip` needs the MLP that `mlp=False` removes: drop one of them.",
            ),
            help="Run one variant: with the MLP's own skip connection, or without.",
        ),
    ] = None

    @property
    def given(self) -> bool:
        return bool(self.named())

    def named(self) -> list[str]:
        """The switches that are set, as they are spelt."""
        return [name for name, value in asdict(self).items() if value is not None]

    def chosen(self) -> dict[str, Switches]:
        return variant_from_switches(self.skip, self.mlp, self.mlp_skip)


@dataclass(frozen=True)
class VariantNames:
    """Which variants of the network are compared."""

    variants: Annotated[
        list[str],
        variant_option(
            metavar="NAME,…",
            complete=complete_variant,
            usual=True,
            applies=Applies(
                excludes=("skip", "mlp", "mlp_skip"),
                why="give `variants` or single switches such as `skip=False`, not both.",
            ),
            help="Variants to compare (see `attn list variants`). [default: paper]",
        ),
    ] = field(default_factory=list)


@dataclass(frozen=True)
class VariantOptions(VariantNames):
    """Which variants of the network are compared, and whether with their outlier removed."""

    remove_outlier: Annotated[
        bool,
        variant_option(
            "--remove-outlier",
            applies=Applies(to=NETWORKS),
            help="Also run every variant with A - 11^T/n in place of A, the published remedy.",
        ),
    ] = False

    def chosen(self, switches: SwitchOptions, default: str = "paper") -> dict[str, Switches]:
        """The variants by name; a saved network has its own default."""
        chosen = resolve_variants(self, switches, default)
        return with_outlier_removed(chosen) if self.remove_outlier else chosen


def resolve_variants(
    variants: VariantNames, switches: SwitchOptions, default: str = "paper"
) -> dict[str, Switches]:
    """The variants by name or by single switches, which exclude each other."""
    return (
        switches.chosen()
        if switches.given
        else parse_variants(split_names(variants.variants) or [default])
    )


@dataclass(frozen=True)
class RunOptions:
    """Which random networks."""

    seed: Annotated[int | None, Option(applies=ANY_RUN, help="First seed. [default: 0]")] = None
    seeds: Annotated[
        int | None,
        Option(
            usual=True,
            applies=OF_NETWORKS,
            help="Number of random networks to average over. [default: 5]",
        ),
    ] = None

    def given(self) -> dict[str, int]:
        return {name: value for name, value in asdict(self).items() if value is not None}

    def all_seeds(self) -> list[int]:
        first, count = self.seed or 0, DEFAULT_SEEDS if self.seeds is None else self.seeds
        if not 0 <= first <= LARGEST_SEED or not 1 <= count <= MOST_SEEDS:
            raise UsageError(
                f"`seed` must be from 0 to {LARGEST_SEED} and `seeds` from 1 to {MOST_SEEDS}."
            )
        return list(range(first, first + count))


def validate_seed(seed: int) -> int:
    if not 0 <= seed <= LARGEST_SEED:
        raise UsageError(f"`seed` must be from 0 to {LARGEST_SEED}, not {seed}.")
    return seed


@dataclass(frozen=True)
class OutputOptions:
    """Where the report goes, its format, and its gates."""

    format: Annotated[
        str | None,
        output_option(
            metavar="NAME",
            complete=complete_format,
            usual=True,
            applies=Applies(
                excludes=("plot:terminal",),
                unless=("table", "markdown"),
                why="`plot` would spoil {setting}: give it a file, as in `plot='curves.png'`.",
            ),
            help="Output format (`attn list formats`). [default: of -o, else table]",
        ),
    ] = None
    output: Annotated[
        str | None,
        output_option(
            "--output",
            "-o",
            metavar="FILE",
            usual=True,
            applies=WRITES,
            help="Write to FILE (atomically).",
        ),
    ] = None
    fail_if: Annotated[
        list[str],
        output_option(
            metavar="CONDITION",
            usual=True,
            help=f"Exit 1 if CONDITION is true: '{GATE}'. Repeatable.",
        ),
    ] = field(default_factory=list)
    plot: Annotated[
        str | None,
        output_option(
            metavar="[FILE.pdf|svg|png]",
            usual=True,
            applies=WRITES,
            help="Draw the curves in the terminal, or save them to a file.",
        ),
    ] = None
    figure_size: Annotated[
        str | None,
        output_option(
            metavar="WxH",
            applies=(
                Applies(needs=("plot",), why=OF_A_FILE),
                Applies(excludes=("plot:terminal",), why=OF_A_FILE),
            ),
            help="Size of the figure in inches, as in 3.4x2.6. [default: as its panels need]",
        ),
    ] = None
    quiet: Annotated[
        bool, output_option("--quiet", "-q", help="Print nothing on stderr but errors.")
    ] = False
    no_progress: Annotated[bool, output_option("--no-progress", help="Hide the progress bar.")] = (
        False
    )

    @property
    def file(self) -> Path | None:
        """The report's path; None for stdout or an address."""
        return None if self.output is None or is_address(self.output) else Path(self.output)

    def inches(self) -> tuple[float, float] | None:
        """Width and height of the figure."""
        if self.figure_size is None:
            return None
        found = INCHES.fullmatch(self.figure_size)
        size = (float(found[1]), float(found[2])) if found else (0.0, 0.0)
        if not all(SMALLEST_FIGURE <= side <= LARGEST_FIGURE for side in size):
            raise UsageError(
                f"`figure_size={self.figure_size!r}`: write width and height in inches, {SMALLEST_FIGURE:g} to "
                f"{LARGEST_FIGURE:g}, as in 3.4x2.6."
            )
        return size

    @property
    def shows_progress(self) -> bool:
        return not (self.quiet or self.no_progress)
