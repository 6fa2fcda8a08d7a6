"""The options of `attn approximate`: patterns, methods, a fit request."""

import os
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from attncli.declare.option_declarations import Applies, declare_option
from attncli.errors import UsageError, require_known_names
from attncli.options.run_and_output import RunOptions, split_comma_separated_names
from attncli.options.value_completion import make_name_completer, make_registry_name_completer
from attncli.registry import list_entry_names

if TYPE_CHECKING:
    from attncli.fits import FitRequest

DEFAULT_PATTERN, DEFAULT_LENGTH = "random:k=4,weights=dirichlet", 256


def replace_matrices_by_names(value: object) -> object:
    """Convert matrices of numpy, scipy, torch or pandas, alone or among texts, to names that refer
    to them."""
    if isinstance(value, str | os.PathLike):
        return value
    if getattr(value, "is_nested", False):
        raise UsageError(
            "`pattern` is a nested tensor, which is no matrix: give each matrix apart."
        )
    alone = hasattr(value, "shape") and len(value.shape) != 1
    several = [value] if alone else list(value) if isinstance(value, Iterable) else []
    if any(isinstance(each, list | tuple) for each in several):
        raise UsageError("`pattern`: give a matrix as an array, such as numpy.array(…).")
    if not any(getattr(each, "shape", ()) for each in several):
        return several or value
    from attncli.patterns._user_matrices import choose_pattern_names

    return choose_pattern_names(several)


complete_pattern = make_registry_name_completer("attncli.patterns")
complete_method = make_name_completer(lambda: ["auto", *list_entry_names("attncli.fits")])


OF_ONE_HEAD = Applies(needs=("head",), why="{name} goes with one head: name it with `head`.")
"""Where heads of a model are measured; other commands have no `head`."""


@dataclass(frozen=True)
class PatternOptions:
    """The patterns to fit."""

    pattern: list[str] = declare_option(
        default=[],
        metavar="NAME[:PARAMETERS]|FILE",
        applies=OF_ONE_HEAD,
        complete=complete_pattern,
        usual=True,
        help=(
            "Target pattern (see `attn list patterns`); a sum such as global:2+window:3; a matrix in a file (.npy .npz .mtx .csv "
            ".safetensors); or the map of a trained head on --text, as in ./model:0.3:top=4. Repeatable. "
            f"[default: {DEFAULT_PATTERN}]"
        ),
        in_words=replace_matrices_by_names,
    )
    length: int | None = declare_option(
        usual=True,
        applies=Applies(
            excludes=("sweep",), why="`sweep='length=...'` sets the length: leave `length` out."
        ),
        help=f"Number of tokens. [default: {DEFAULT_LENGTH}, or the length of the file or text]",
    )
    causal: bool = declare_option(
        default=False, usual=True, applies=OF_ONE_HEAD, help="Hide the keys after each query."
    )

    @property
    def pattern_names_or_default(self) -> list[str]:
        return self.pattern or [DEFAULT_PATTERN]


@dataclass(frozen=True)
class MethodOptions:
    """Which methods make the inputs, and how long they search."""

    method: list[str] = declare_option(
        default=[],
        metavar="NAME[:PARAMETERS],…",
        complete=complete_method,
        usual=True,
        help="auto, or methods of `attn list methods`. [default: auto]",
    )
    widest: int = declare_option(
        default=512, help="Largest width that a search tries. [default: 512]"
    )
    allow_unmet: bool = declare_option(
        default=False,
        help="Exit with 0 even if a pattern misses the request or no width was found.",
    )
    effort: int = declare_option(
        default=2, help="How long `learned` searches, from 1 to 4. [default: 2]"
    )

    @property
    def requested_fit_methods(self) -> list[str]:
        """The requested methods; parameters after a comma belong to the method before it."""
        from attncli.fits import FITS

        methods: list[str] = []
        for part in split_comma_separated_names(self.method) or ["auto"]:
            if methods and "=" in part.partition(":")[0]:
                methods[-1] += f",{part}"
            else:
                methods.append(part)
        for method in methods:
            name = method.partition(":")[0]
            require_known_names("method", [name], ["auto", *FITS.names()])
        return list(dict.fromkeys(methods))


@dataclass(frozen=True)
class WidthSearchOptions(MethodOptions):
    """How the module is fitted."""

    width: int | None = declare_option(
        usual=True,
        applies=Applies(
            excludes=("find_width", "sweep", "frontier"),
            why="`width` fixes what `find_width`, `sweep` and `frontier` vary: leave it out.",
        ),
        help="Head dimension d of queries and keys. [default: the smallest found]",
    )
    find_width: bool = declare_option(
        default=False, help="Search for the smallest width; this is the default without --width."
    )


@dataclass(frozen=True)
class PrecisionOptions:
    """How exactly the rounded module must reproduce the pattern."""

    ratio_error: float = declare_option(
        default=0.2,
        help="ε2: ratios of weights within a row are kept up to a factor 1 + ε2. [default: 0.2]",
    )
    off_support: float = declare_option(
        default=0.2, help="ε1: weights off the support, relative to those on it. [default: 0.2]"
    )
    total_variation: float = declare_option(
        default=0.01, usual=True, help="Total variation of the worst row. [default: 0.01]"
    )
    logit_budget: float = declare_option(
        default=float("inf"), help="Largest |logit| allowed. [default: none]"
    )
    dtype: str = declare_option(
        default="float32",
        metavar="float64|float32|bfloat16",
        help="Data type to round to; head-capacity --head reports all three. [default: float32]",
    )


@dataclass(frozen=True)
class RandomDrawOptions(RunOptions):
    """Which random draws: of the patterns that are random, and of the methods."""

    seeds: int = declare_option(
        default=2,
        help=(
            "Number of draws of random patterns, and of starts that a method may try until one meets the "
            "request. [default: 2]"
        ),
    )


def build_fit_request(
    patterns: PatternOptions, search: MethodOptions, precision: PrecisionOptions
) -> "FitRequest":
    from attncli.fits import MOST_WIDTH, FitRequest

    if not 1 <= search.widest <= MOST_WIDTH:
        raise UsageError(f"`widest` must be from 1 to {MOST_WIDTH:,}, not {search.widest}.")
    width = search.width if isinstance(search, WidthSearchOptions) else None
    d = 1 if width is None else width
    return FitRequest(d=d, causal=patterns.causal, effort=search.effort, **asdict(precision))
