"""What a variant of a network or a model measures at each of its states."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from attncli.networks.spec import NetworkSpec
from attncli.networks.variants import AblationSwitches

RESIDUAL, RESIDUAL_NORM = "log10_residual", "log10_residual_norm"
"""The metrics that regimes and the comparison with the bound need."""

EXACT = "exact"
"""The arithmetic that computes common row and residual separately."""


@dataclass(frozen=True)
class Trajectory:
    """One variant of one network: every metric at states 0 … L.

    -inf: exactly zero, or below the range of log10 itself; nan: unknown, because tokens coincide to
    the last bit, or for the reason in `unknown`.
    """

    values: Mapping[str, list[float]]
    log10_constants: list[float]
    """Per layer, log10 of the constant K in the bound; empty where the theorem does not apply."""
    arithmetic: str = ""
    """Of a model's run: `EXACT`, or the type of the plain numbers."""
    why_plain: str = ""
    """Why it is not exact."""
    uncertain: Mapping[str, list[float]] = field(default_factory=dict)
    """How far rounding may have moved each number, of a run in plain numbers."""
    unknown: Mapping[str, list[str]] = field(default_factory=dict)
    """Why a number is not known; empty where it is."""
    log10_logit_ranges: list[float] = field(default_factory=list)
    """Per layer, log10 of the range of a row's logits due to the tokens' residuals; empty if not
    requested."""


Ensemble = Mapping[str, Sequence[Trajectory]]
"""Per variant, one trajectory for each seed."""


def is_bound_applicable(spec: NetworkSpec, switches: AblationSwitches) -> bool:
    """Whether the theorem applies: softmax attention on content alone, unmasked, without norms or
    attention skips."""
    plain = (spec.norm, spec.mask, spec.positions, spec.attention)
    return plain == ("none", "none", "none", "softmax") and not (
        switches.skip or switches.remove_outlier
    )
