"""Maps drawn with characters and in figures."""

import dataclasses
import io
from pathlib import Path

import pytest
from rich.console import Console

from attncli.records import MapPicture, Report
from attncli.render.plots.attention_map_in_terminal import max_pool_attention_map
from attncli.render.plots.matplotlib_figure import save_figure
from attncli.render.plots.terminal_plot import plot_in_terminal

EYE = tuple(tuple(float(i == j) for j in range(8)) for i in range(8))
LOST = tuple(tuple(0.25 * (i == j == 5) for j in range(8)) for i in range(8))
HALF = tuple(tuple(0.5 * value for value in row) for row in EYE)
DRAWN = MapPicture("eight tokens", {"target": EYE, "achieved": HALF, "|error|": LOST})
REPORT = Report("example", "A diagonal.", (), {}, {}, pictures=(DRAWN,))


def drawn(report: Report, width: int) -> str:
    console = Console(file=io.StringIO(), width=width, color_system=None, highlight=False)
    with console.capture() as capture:
        console.print(plot_in_terminal(report))
    return "\n".join(line.rstrip() for line in capture.get().splitlines())


def test_maps_in_the_terminal() -> None:
    """Two rows a character; the maps share a scale, the error has its own."""
    assert drawn(REPORT, 80) == (
        """
eight tokens
target (█ = 1.000)    achieved (█ = 1.000)  |error| (█ = 0.2500)
██                    ▓▓
  ██                    ▓▓
    ██                    ▓▓                     █
      ██                    ▓▓"""
    )


@pytest.mark.parametrize("width", [30, 50, 300])
def test_maps_fit_the_terminal(width: int) -> None:
    wide = tuple(tuple(float(i == j) for j in range(150)) for i in range(150))
    big = MapPicture("big", {"target": wide, "achieved": wide, "|error|": wide})
    lines = drawn(dataclasses.replace(REPORT, pictures=(big,)), width).splitlines()
    assert max(map(len, lines)) <= width


def test_no_weight_is_lost_by_pooling() -> None:
    for rows, columns in ((1, 1), (3, 5), (8, 8)):
        small = max_pool_attention_map(LOST, rows, columns)
        assert max(map(max, small)) == 0.25
        assert (len(small), len(small[0])) == (rows, columns)


@pytest.mark.parametrize("count", [1, 9])
def test_a_figure_draws_maps(count: int, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    from matplotlib.figure import Figure

    canvases: list[Figure] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Figure, "savefig", lambda canvas, *_, **__: canvases.append(canvas))
        save_figure(dataclasses.replace(REPORT, pictures=(DRAWN,) * count), tmp_path / "x.png")
    images = [axes.images[0] for axes in canvases[0].axes if axes.images]
    assert len(images) == 3 * min(count, 6)
    assert images[0].get_array().tolist() == [list(row) for row in EYE]
    assert images[1].get_clim() == (0.0, 1.0)
    assert images[2].get_clim() == (0.0, 0.25)
    title = canvases[0].get_suptitle()
    assert ("3 more patterns are not drawn" in title) == (count == 9)


@pytest.mark.slow
def test_figures_of_maps_have_the_same_bytes_every_time(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    for name in ("1.svg", "2.svg"):
        save_figure(REPORT, tmp_path / name)
    assert (tmp_path / "1.svg").read_bytes() == (tmp_path / "2.svg").read_bytes()


NAMED = MapPicture(
    "head 2.3", {"2.3": EYE}, ("[CLS]", " the", "fox", "is", "quick", "and", "red", ".")
)


def lines_of(picture: MapPicture, width: int, height: int) -> list[str]:
    console = Console(file=io.StringIO(), width=width, height=height, color_system=None, highlight=False)  # fmt: skip
    with console.capture() as capture:
        console.print(plot_in_terminal(dataclasses.replace(REPORT, pictures=(picture,))))
    return [line.rstrip() for line in capture.get().splitlines()]


def test_a_head_has_its_tokens_on_both_sides() -> None:
    """A line for each query, two columns for each key; their names are read downwards."""
    assert lines_of(NAMED, 80, 40)[1:] == [
        "head 2.3",
        "       █ = 1.000; a row is a query, a column a key",
        "       [ t f i q a r .",
        "       C h o s u n e",
        "       L e x   i d d",
        "       S       c",
        "       ]       k",
        "[CLS] │██",
        "  the │  ██",
        "  fox │    ██",
        "   is │      ██",
        "quick │        ██",
        "  and │          ██",
        "  red │            ██",
        "    . │              ██",
    ]


@pytest.mark.parametrize(("width", "height"), [(40, 24), (80, 24), (200, 60)])
def test_maps_with_tokens_scale_to_the_screen(width: int, height: int) -> None:
    """Of what has no room one token stands for several, and no weight is lost."""
    cells = tuple(tuple(float(i == j) for j in range(90)) for i in range(90))
    words = tuple(f"token{index}" for index in range(90))
    lines = lines_of(MapPicture("head 0.0", {"0.0": cells}, words), width, height)
    assert max(map(len, lines)) <= width
    assert len(lines) <= height
    rows = [line for line in lines if "│" in line]
    assert all("█" in row for row in rows)
    assert len(rows) > height // 2
    assert sum("…" in row for row in rows) >= min(len(rows), 90 - len(rows))
