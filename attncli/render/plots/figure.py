"""Curves as a PNG, SVG or PDF file, with matplotlib (the `plot` extra)."""

from pathlib import Path

from attncli.records import Report
from attncli.render.plots.chart import Chart, chart, needs_squeeze

MARKERS = "os^Dvph*"
METADATA = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}, ".png": {}}
"""No date inside: the same numbers give the same bytes."""


def figure(report: Report, path: Path) -> None:
    """Draw the report's curves, spread as bars, into a file whose ending names the format."""
    import matplotlib
    from matplotlib.figure import Figure  # not pyplot: no global state, no display

    drawn = chart(report)
    with matplotlib.rc_context({"svg.hashsalt": "attn"}):
        canvas = Figure(figsize=(7.2, 4.6), layout="constrained")
        axes = canvas.add_subplot()
        if drawn is not None:
            plot(axes, drawn)
        axes.set_title(report.headline, fontsize=8, loc="left", wrap=True)
        canvas.savefig(path, dpi=150, metadata=METADATA[path.suffix.lower()])


def plot(axes: object, drawn: Chart) -> None:
    for marker, (name, points) in zip(MARKERS * 4, drawn.series.items(), strict=False):
        axes.errorbar(  # type: ignore[attr-defined]
            [point.x for point in points],
            [point.y for point in points],
            yerr=[point.spread for point in points],
            marker=marker,
            markersize=4,
            linewidth=1.2,
            capsize=2,
            label=name,
        )
    if needs_squeeze(drawn):
        axes.set_yscale("symlog", linthresh=1.0)  # type: ignore[attr-defined]
    axes.set_xlabel(drawn.x_label)  # type: ignore[attr-defined]
    axes.set_ylabel(drawn.metric)  # type: ignore[attr-defined]
    axes.grid(alpha=0.3)  # type: ignore[attr-defined]
    axes.legend(frameon=False)  # type: ignore[attr-defined]
