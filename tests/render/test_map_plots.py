"""Maps drawn with characters and in figures."""

import dataclasses
import io
from pathlib import Path

import pytest
from rich.console import Console

from attncli.records import Picture, Report
from attncli.render.plots.figure import figure
from attncli.render.plots.maps import pooled
from attncli.render.plots.terminal import terminal

EYE = tuple(tuple(float(i == j) for j in range(8)) for i in range(8))
LOST = tuple(tuple(0.25 * (i == j == 5) for j in range(8)) for i in range(8))
HALF = tuple(tuple(0.5 * value for value in row) for row in EYE)
DRAWN = Picture("eight tokens", {"target": EYE, "achieved": HALF, "|error|": LOST})
REPORT = Report("example", "A diagonal.", (), {}, {}, pictures=(DRAWN,))


def drawn(report: Report, width: int) -> str:
    console = Console(file=io.StringIO(), width=width, color_system=None, highlight=False)
    with console.capture() as capture:
        console.print(terminal(report))
    return "\n".join(line.rstrip() for line in capture.get().splitlines())


def test_maps_in_the_terminal() -> None:
    """Two rows a character; the maps share a scale, the error has its own."""
    assert drawn(REPORT, 80) == (
        """
eight tokens
target (  achieved  |error|
██        ▓▓
  ██        ▓▓
    ██        ▓▓         █
      ██        ▓▓"""
    )


@pytest.mark.parametrize("width", [30, 50, 300])
def test_maps_fit_the_terminal(width: int) -> None:
    wide = tuple(tuple(float(i == j) for j in range(150)) for i in range(150))
    big = Picture("big", {"target": wide, "achieved": wide, "|error|": wide})
    lines = drawn(dataclasses.replace(REPORT, pictures=(big,)), width).splitlines()
    assert max(map(len, lines)) <= width


def test_no_weight_is_lost_by_pooling() -> None:
    for rows, columns in ((1, 1), (3, 5), (8, 8)):
        small = pooled(LOST, rows, columns)
        assert max(map(max, small)) == 0.25
        assert (len(small), len(small[0])) == (rows, columns)


@pytest.mark.parametrize("count", [1, 9])
def test_a_figure_draws_maps(count: int, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    from matplotlib.figure import Figure

    canvases: list[Figure] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Figure, "savefig", lambda canvas, *_, **__: canvases.append(canvas))
        figure(dataclasses.replace(REPORT, pictures=(DRAWN,) * count), tmp_path / "x.png")
    images = [axes.images[0] for axes in canvases[0].axes if axes.images]
    assert len(images) == 3 * min(count, 6)
    assert images[0].get_array().tolist() == [list(row) for row in EYE]
    assert images[1].get_clim() == (0.0, 1.0)
    assert images[2].get_clim() == (0.0, 0.25)
    title = canvases[0].get_suptitle()
    assert ("3 more patterns are not drawn" in title) == (count == 9)


def test_figures_of_maps_have_the_same_bytes_every_time(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    for name in ("1.svg", "2.svg"):
        figure(REPORT, tmp_path / name)
    assert (tmp_path / "1.svg").read_bytes() == (tmp_path / "2.svg").read_bytes()
