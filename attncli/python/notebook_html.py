"""A report in a notebook: its tables and its figure as HTML."""

import base64
from collections.abc import Iterator
from pathlib import Path

from attncli.records import Report
from attncli.render._table_cells import build_table_grids
from attncli.render.html_page.html_tables import escape_text as plain_text
from attncli.render.html_page.html_tables import format_table


def render_html(report: Report) -> Iterator[str]:
    """Render the report as HTML; all external text is escaped: a token may be called <script>."""
    yield f"<p><strong>{plain_text(report.headline)}</strong></p>"
    drawn = list(render_figure_as_html(report))
    yield from drawn
    yield from (
        format_table(grid) for grid in build_table_grids(report) if not (drawn and grid.is_heat)
    )
    for verdict in report.verdicts:
        mark = "✗" if verdict.failed else "✓"
        yield f"<p>{mark} <code>{plain_text(verdict.condition)}</code> {plain_text(verdict.text)}</p>"
    for warning in report.warnings:
        yield f"<p><em>{plain_text(warning)}</em></p>"


def render_figure_as_html(report: Report) -> Iterator[str]:
    """Render the figure of `plot` for the page; with very many heads as a bitmap, which is smaller."""
    from importlib.util import find_spec

    from attncli.render.plots.matplotlib_figure import has_figure

    if find_spec("matplotlib") is None or not has_figure(report):
        return
    drawn = render_figure_to_bytes(report, ".svg", DOTS)
    if len(drawn) <= MOST_DRAWN:
        text = drawn.decode()
        yield text[text.index("<svg") :].replace("<svg ", f'<svg style="{FITTED}" ', 1)
        return
    dots = render_figure_to_bytes(report, ".png", FEW_DOTS)
    if len(dots) <= MOST_DRAWN:
        code = base64.b64encode(dots).decode()
        yield f'<img alt="" style="{FITTED}" src="data:image/png;base64,{code}">'


MOST_DRAWN = 2**19
"""Of a figure in a notebook, which keeps it."""


DOTS, FEW_DOTS = 100, 60
"""Of an inch: of maps within a drawing, and of a whole figure where it is shown in dots."""


FITTED = "max-width: 100%; height: auto"


def render_figure_to_bytes(report: Report, ending: str, dots: int) -> bytes:
    import tempfile

    from attncli.render.plots.matplotlib_figure import save_figure

    with tempfile.TemporaryDirectory(prefix="attn-") as scratch:
        path = Path(scratch) / f"figure{ending}"
        save_figure(report, path, dots=dots)
        return path.read_bytes()
