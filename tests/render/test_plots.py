"""Curves: in the terminal and in files."""

import dataclasses
import io
import re
from pathlib import Path
from xml.etree import ElementTree

import pytest
from rich.console import Console

from attncli.records import Report, Row, View
from attncli.render.plots.chart_data import (
    collect_charts,
    collect_first_chart,
    inverse_symmetric_log,
    symmetric_log,
)
from attncli.render.plots.matplotlib_figure import save_figure
from attncli.render.plots.terminal_plot import plot_in_terminal

LINE = Report(
    "example",
    "A straight line.",
    tuple(Row("order", float(layer), "1", "SAN", layer) for layer in range(4))
    + tuple(Row("order", 3.0 - layer, "1", "skip", layer) for layer in range(4)),
    {},
    {},
    views=(View("order by layer", "layer", ("order",), across="variant"),),
)


def drawn(report: Report, width: int = 46) -> str:
    console = Console(file=io.StringIO(), width=width, color_system=None, highlight=False)
    with console.capture() as capture:
        console.print(plot_in_terminal(report))
    return "\n".join(line.rstrip() for line in capture.get().splitlines())


def test_terminal_plot() -> None:
    assert drawn(LINE) == (
        """
order by layer
       3.000 │■·                            ·●
             │  ·                          ·
             │   ···                    ···
             │      ·                  ·
             │       ···            ···
       2.000 │          ■·        ·●
             │            ··    ··
             │              ····
             │              ····
             │            ··    ··
       1.000 │         ·●·        ·■·
             │        ·              ·
             │     ···                ···
             │    ·                      ·
             │ ···                        ···
       0.000 │●                              ■
             └────────────────────────────────
              0            layer             3
              ● SAN   ■ skip"""
    )


@pytest.mark.parametrize("width", [40, 60, 80, 200])
def test_terminal_plot_fits(width: int) -> None:
    assert max(map(len, drawn(LINE, width).splitlines())) <= width


def test_every_series_is_seen_where_others_lie_on_it() -> None:
    """Two curves on top of each other: neither hides the other altogether."""
    twins = [row for row in LINE.rows if row.variant == "SAN"]
    twins += [dataclasses.replace(row, variant="twin") for row in twins]
    canvas = drawn(dataclasses.replace(LINE, rows=tuple(twins))).rpartition("└")[0]
    assert "●" in canvas
    assert "■" in canvas


@pytest.mark.parametrize("rows", [(), (Row("order", None, "1", "SAN", 0, note="too early"),)])
def test_nothing_to_plot_is_said(rows: tuple[Row, ...]) -> None:
    assert "no numbers to plot" in drawn(dataclasses.replace(LINE, rows=rows))


def test_nulls_and_other_metrics_are_not_points() -> None:
    extra = (Row("order", None, "1", "SAN", 4, note="x"), Row("entropy", 9.0, "nat", "SAN", 1))
    found = collect_first_chart(dataclasses.replace(LINE, rows=LINE.rows + extra))
    assert found is not None
    assert found.gaps == (4.0,)
    assert dataclasses.replace(found, gaps=()) == collect_first_chart(LINE)
    assert [point.y for point in found.series["SAN"]] == [0.0, 1.0, 2.0, 3.0]


TWO_WIDTHS = Report(
    "example",
    "Two widths.",
    tuple(
        Row("order", width * step, "1", "SAN", keys={"step": step, "width": width})
        for width in (8, -16)
        for step in range(4)
    ),
    {},
    {},
    views=tuple(
        View(f"Width {width}", "step", ("order",), "variant", {"width": width}, lowest_drawn=-32.0)
        for width in (8, -16)
    ),
)


def test_views_of_the_same_curves_elsewhere_are_drawn_each_by_itself(tmp_path: Path) -> None:
    """Every plot has the rows of its own place, down to where the view ends."""
    first, second = collect_charts(TWO_WIDTHS)
    assert [point.y for point in first.series["SAN"]] == [0.0, 8.0, 16.0, 24.0]
    assert [point.y for point in second.series["SAN"]] == [0.0, -16.0, -32.0]
    lines = drawn(TWO_WIDTHS).splitlines()
    assert [line for line in lines if "Width" in line] == ["Width 8", "Width -16"]
    pytest.importorskip("matplotlib")
    save_figure(TWO_WIDTHS, tmp_path / "two.svg")
    assert len(re.findall(r'id="axes_\d+"', (tmp_path / "two.svg").read_text())) == 2


@pytest.mark.parametrize("value", [0.0, -0.3, 2.5, -171507.0, 1e200])
def test_squeezing_can_be_undone(value: float) -> None:
    assert inverse_symmetric_log(symmetric_log(value)) == pytest.approx(value, rel=1e-9, abs=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("suffix", [".png", ".svg", ".pdf"])
def test_figures_have_the_same_bytes_every_time(suffix: str, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    paths = [tmp_path / f"{number}{suffix}" for number in (1, 2)]
    for path in paths:
        save_figure(LINE, path)
    assert paths[0].read_bytes() == paths[1].read_bytes()
    start = {".png": b"\x89PNG\r\n", ".svg": b"<?xml", ".pdf": b"%PDF-"}[suffix]
    assert paths[0].read_bytes().startswith(start)


def test_an_axis_title_is_inside_the_figure(tmp_path: Path) -> None:
    """The titles of real views are long."""
    pytest.importorskip("matplotlib")
    from matplotlib.figure import Figure

    title = "log10_residual after each layer, mean ± standard deviation over 5 seeds"
    views = (dataclasses.replace(LINE.views[0], title=title),)
    canvases: list[Figure] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Figure, "savefig", lambda canvas, *_, **__: canvases.append(canvas))
        save_figure(dataclasses.replace(LINE, views=views), tmp_path / "x.png")
    (canvas,) = canvases
    canvas.canvas.draw()
    label = canvas.axes[0].yaxis.label.get_window_extent()
    assert label.y0 >= 0
    assert label.y1 <= canvas.bbox.height


def test_an_svg_is_well_formed(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    save_figure(LINE, tmp_path / "x.svg")
    root = ElementTree.parse(tmp_path / "x.svg").getroot()
    assert root.tag.endswith("svg")


LEVELLED = dataclasses.replace(LINE, rows=(*LINE.rows, Row("order", 4.0, "1", "all of it")))


def test_a_number_without_a_place_is_a_level_that_curves_are_held_against(tmp_path: Path) -> None:
    found = collect_first_chart(LEVELLED)
    assert found is not None
    assert found.levels == {"all of it": 4.0}
    assert set(found.series) == {"SAN", "skip"}
    top, *below = drawn(LEVELLED).splitlines()[2:]
    assert top == "       4.000 │" + "╌" * 32
    assert not [line for line in below[:-1] if "╌" in line]
    assert below[-1].endswith("╌╌ all of it")
    pytest.importorskip("matplotlib")
    for name, report in (("plain", LINE), ("levelled", LEVELLED)):
        save_figure(report, tmp_path / f"{name}.svg")
    plain, levelled = ((tmp_path / f"{n}.svg").read_text() for n in ("plain", "levelled"))
    assert levelled.count("stroke-dasharray") == plain.count("stroke-dasharray") + 2  # and legend


def test_the_marks_of_a_squeezed_axis_are_plain_numbers(tmp_path: Path) -> None:
    """Curves over several decades: 10 and 100, as they are spoken, and no source text of a formula."""
    rows = tuple(Row("order", 10.0**layer, "1", "SAN", layer) for layer in range(4))
    save_figure(dataclasses.replace(LINE, rows=rows), tmp_path / "figure.svg")
    written = re.findall(r"<text[^>]*>(.*?)</text>", (tmp_path / "figure.svg").read_text())
    assert {"10", "100", "1,000"} <= set(written)
    assert not any("mathdefault" in each for each in written)
