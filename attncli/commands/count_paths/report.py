"""The report of how many paths each length has."""

from attncli.analysis.paths.path_count_rows import build_path_count_rows
from attncli.analysis.paths.path_metrics import OWN_METRICS
from attncli.maths.network_path_counts import (
    compute_path_length_shares,
    count_paths_by_length,
    log10_of_integer,
)
from attncli.maths.number_format import format_short_number
from attncli.progress import Progress, ignore_progress
from attncli.records import Facts, Report, View

NAMES = ("path_count", "log10_path_count", "path_count_share")


def build_path_count_report(
    layers: int, heads: int, skip: bool, source: Facts, progress: Progress = ignore_progress
) -> Report:
    """The number of paths of each length, from sizes alone."""
    counts = count_paths_by_length(layers, heads, skip)
    most = max(compute_path_length_shares(counts).items(), key=lambda item: item[1])
    log10 = log10_of_integer(sum(counts.values()))
    total = (
        format_short_number(float(sum(counts.values())), 4) if log10 < 308 else f"10^{log10:.1f}"
    )
    variant = "SAN+skip" if skip else "SAN"
    return Report(
        study="paths",
        headline=f"{total} paths; most have length {most[0]}: a share of {most[1]:.3f}.",
        rows=tuple(build_path_count_rows(counts, variant)),
        metrics={name: OWN_METRICS[name] for name in NAMES},
        source={**source, "layers": layers, "heads": heads, "variant": variant},
        views=(
            View(f"{variant}: {layers} layers of {heads} heads", "length", NAMES),
            View("Share of all paths", "length", ("path_count_share",), across="variant"),
        ),
    )
