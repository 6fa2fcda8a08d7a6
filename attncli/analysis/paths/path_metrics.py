"""Metrics of `attn paths`, and sentences about their numbers."""

from collections.abc import Mapping, Sequence

from attncli.maths.number_format import format_short_number
from attncli.metrics import METRICS
from attncli.records import Definition, Finding

MOST = 0.9
"""The fraction of the summed norms that the headline reports."""

CANCELLING = 5.0
"""How many times the output the terms may be before the headline warns; 13 orthogonal ones of one size are 3.6."""

OWN_METRICS: Mapping[str, Definition] = {
    "path_count": Definition(
        "paths", "Number of paths of this length; the exact integer is in the note."
    ),
    "log10_path_count": Definition("log10", "log10 of path_count, which may leave float range."),
    "path_count_share": Definition(
        "1", "This length's part of all paths: Binomial(L, H/(1+H)) with skips."
    ),
    "path_norm_share": Definition(
        "1", "‖T_k‖_F / Σ_j ‖T_j‖_F of the sum T_k of all paths of length k."
    ),
    "path_norm_share_up_to": Definition("1", "Σ_(j≤k) of path_norm_share."),
    "path_output_share": Definition(
        "1", "⟨T_k, Y⟩ / ‖Y‖_F²: signed, adds up to 1 over all lengths."
    ),
    "reconstruction_error": Definition(
        "1", "‖Y - Σ_(j≤k) T_j‖_F / ‖Y‖_F: how far the output is off when lengths ≤ k are kept."
    ),
    "completeness_error": Definition(
        "1", "‖Y - Σ_k T_k‖_F / ‖Y‖_F over all lengths: rounding, or the decomposition is wrong."
    ),
    "cancellation": Definition(
        "1",
        "Σ_k ‖T_k‖_F / ‖Y‖_F: 1 where terms point one way; far above it they cancel each other.",
    ),
    "skip_residual": Definition(
        "1", "‖res(T_0)‖_F / ‖Y‖_F, res(X) = X - 1x̄^T: how far paths of length 0 keep tokens apart."
    ),
    "rest_residual": Definition("1", "The same of all longer paths together, Y - T_0."),
    "residual_lower_bound": Definition(
        "1",
        "skip_residual - rest_residual: output_residual is at least that, so above 0 the skip alone stops the collapse.",
    ),
    "output_residual": Definition("1", "‖res(Y)‖_F / ‖Y‖_F: how far apart tokens are in the end."),
    "completeness_error_residual": Definition(
        "1", "The same of what sets the tokens apart alone, Y - 1ȳ^T, however small it is."
    ),
}


def format_percent(share: float) -> str:
    """`12 %`, `3.4e-05 %`: two digits, and 100 % only if exact."""
    text = f"{100.0 * share:.2g}"
    if share < 1.0 and float(text) >= 100.0:
        return "over 99 %"
    return f"{float(text):g} %"


def describe_short_paths(
    norm_up_to: Mapping[int, float], count_up_to: Mapping[int, float], error: Mapping[int, float]
) -> str:
    """Describe the shortest paths that have most of the output."""
    *shorter, longest = sorted(norm_up_to)
    if not shorter:
        return f"every path has length {longest}: they carry all of the output"
    enough = [length for length in shorter if norm_up_to[length] >= MOST]
    length = enough[0] if enough else shorter[-1]
    only = "" if enough else "only "
    one = length == 0
    return (
        f"{'the path of length 0 carries' if one else f'paths of length ≤ {length} carry'} "
        f"{only}{format_percent(norm_up_to[length])} of the output (of the summed norms of its terms); "
        f"by count {'it is' if one else 'they are'} {format_percent(count_up_to[length])}; "
        f"alone {'it misses' if one else 'they miss'} the output by {format_percent(error[length])}"
    )


def describe_cancelling_paths(cancellation: float) -> str:
    """Warn where the terms are much larger than their sum."""
    if cancellation < CANCELLING:
        return ""
    return f"; beware, terms cancel each other: their norms add up to {format_short_number(cancellation, 2)} times the output"


def capitalize_and_end_with_period(text: str) -> str:
    return text[0].upper() + text[1:] + "."


def format_headline(findings: Sequence[Finding]) -> str:
    return capitalize_and_end_with_period(findings[0].text)


def metric_definitions(report_metrics: Sequence[str]) -> dict[str, Definition]:
    """Definitions of this study's own metrics and of metrics of states."""
    return {name: METRICS.definition(name) for name in report_metrics} | dict(OWN_METRICS)
