"""The report of how many paths each length has."""

from collections.abc import Mapping

from attncli.analysis.paths.path_count_rows import build_path_count_rows
from attncli.analysis.paths.path_metrics import OWN_METRICS
from attncli.errors import format_count
from attncli.maths.network_path_counts import (
    count_paths_by_length,
    log10_of_integer,
)
from attncli.maths.number_format import format_short_number
from attncli.progress import Progress, ignore_progress
from attncli.records import Facts, Report, View

NAMES = ("path_count", "log10_path_count", "path_count_share")


def build_path_count_report(
    layers: int,
    heads: int,
    skip: bool,
    source: Facts,
    progress: Progress = ignore_progress,
    warnings: tuple[str, ...] = (),
) -> Report:
    """The number of paths of each length, from sizes alone."""
    counts = count_paths_by_length(layers, heads, skip)
    variant = "SAN+skip" if skip else "SAN"
    return Report(
        study="paths",
        headline=describe_path_counts(counts),
        rows=tuple(build_path_count_rows(counts, variant)),
        metrics={name: OWN_METRICS[name] for name in NAMES},
        source={**source, "layers": layers, "heads": heads, "variant": variant},
        views=(
            View(
                f"{variant}: {format_count(layers, 'layer')} of {format_count(heads, 'head')}",
                "length",
                NAMES,
            ),
            View("Share of all paths", "length", ("path_count_share",), across="variant"),
        ),
        warnings=warnings,
    )


def describe_path_counts(counts: Mapping[int, int]) -> str:
    """All paths, and the length that most of them share: two lengths may tie."""
    total = sum(counts.values())
    log10 = log10_of_integer(total)
    number = format_short_number(float(total), 4) if log10 < 308 else f"10^{log10:.1f}"
    paths = f"{number} path{'' if total == 1 else 's'}"
    largest = max(counts.values())
    lengths = [length for length, count in counts.items() if count == largest]
    if len(counts) == 1:
        return f"{paths}{'' if total == 1 else ', all'} of length {lengths[0]}."
    share = f"a share of {largest / total:.3f}"
    if len(lengths) == 1:
        return f"{paths}; length {lengths[0]} is the most common: {share}."
    return f"{paths}; lengths {lengths[0]} and {lengths[1]} are the most common: {share} each."
