"""Labels of axes and captions: words in place of the names that scripts use."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from attncli.records import Definition, Facts, Report

SYMBOLS = {
    "residual": "r",
    "log10_residual": "log₁₀ r",
    "log10_residual_norm": "log₁₀ ‖residual‖",
    "log10_residual_frobenius": "log₁₀ r, Frobenius",
    "log10_residual_spectral": "log₁₀ r, spectral",
    "log10_residual_optimal": "log₁₀ r, best common row",
    "d_min": "smallest width d",
    "d": "width d",
    "quantile": "",
}
"""Symbols of metrics whose names are not clear in words."""
PLAIN_UNITS = ("", "1", "0 or 1", "log10", "norm", "features", "tokens", "the metric's own")
"""Units that add nothing to the name."""
SHORTENED = 8
"""Letters of a hash."""
MOST_TEXTS = 2


def format_axis_label(name: str, metrics: Mapping[str, Definition]) -> str:
    """Label of a metric or an axis, with its unit where that is informative."""
    words = SYMBOLS.get(name)
    if words is None:
        plain = name.removeprefix("log10_").replace("_", " ")
        words = f"log₁₀ {plain}" if name.startswith("log10_") else plain
    unit = metrics[name].unit if name in metrics else ""
    return words if unit in PLAIN_UNITS or unit in words else f"{words} ({unit})"


def format_figure_caption(report: Report) -> str:
    """The model and the text, as they belong under a figure."""
    return " · ".join(
        filter(
            None,
            [
                *describe_measured_model_or_networks(report.source),
                *describe_input(report),
                *explain_deviation_bands(report),
            ],
        )
    )


def explain_deviation_bands(report: Report) -> Iterator[str]:
    """Explain bands and bars, where there are some; tracks in the plane show one seed."""
    if report.tracks:
        return
    counts = {row.n for row in report.rows if row.spread}
    if counts:
        of = "texts" if isinstance(report.input.get("texts"), list | tuple) else "seeds"
        over = f" over {max(counts)} {of}" if len(counts) == 1 else ""
        yield f"±\u00a0standard deviation{over}"


def describe_measured_model_or_networks(source: Facts) -> Iterator[str]:
    """Describe the measured model or networks."""
    name = source.get("name") or source.get("path") or source.get("class")
    revision, digest = source.get("revision"), source.get("weight_sha256") or source.get("sha256")
    networks = source.get("networks") or [source.get("network")]
    if name:
        yield Path(str(name)).name if str(name).startswith((".", "/", "~")) else str(name)
    if revision:
        yield str(revision)[: 5 * SHORTENED]
    if digest:
        yield f"weights {str(digest)[:SHORTENED]}"
    if source.get("dtype"):
        yield str(source["dtype"])
    if all(isinstance(network, Mapping) for network in networks):
        yield f"synthetic, {', '.join(describe_sizes(networks))}"


def describe_sizes(networks: Sequence[Facts]) -> Iterator[str]:
    """The sizes that all networks of a report share."""
    for size in ("layers", "heads", "width", "tokens"):
        found = {network.get(size) for network in networks}
        if len(found) == 1 and None not in found:
            yield f"{size} {found.pop()}"


def describe_input(report: Report) -> Iterator[str]:
    """Describe the input."""
    texts = report.input.get("texts")
    if isinstance(texts, list | tuple) and texts:
        named = [
            f"{text.get('name')} ({text.get('tokens')} tokens)"
            for text in texts
            if isinstance(text, Mapping)
        ]
        yield ", ".join(named) if len(named) <= MOST_TEXTS else f"{len(named)} texts"
    patterns = report.input.get("patterns")
    if isinstance(patterns, list | tuple) and patterns:
        yield ", ".join(map(str, patterns))
    if report.environment.get("attn"):
        yield f"attn {report.environment['attn']}"
