"""Figures fit for a paper: who is shown, every metric, lines that print tells apart, letters that stay letters."""

import dataclasses
import re
from itertools import pairwise
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from commands import attn

from attncli.analysis.rank_collapse.network_collapse import measure_network_collapse
from attncli.networks.ablation_variants import parse_ablation_variants
from attncli.networks.network_spec import NetworkSpec
from attncli.networks.network_weights import GeneratedNetwork
from attncli.records import Definition, Report, Row, View
from attncli.render.plots.axis_labels_and_captions import format_axis_label, format_figure_caption
from attncli.render.plots.chart_data import (
    collect_charts,
    is_geometric_sequence,
    is_log_axis_suitable,
    needs_symmetric_log_axis,
)
from attncli.render.plots.curve_figure import draw_curve_figure
from attncli.render.plots.fitted_curves import find_best_fitted_law
from attncli.render.plots.line_styles import assign_line_styles
from attncli.render.plots.matplotlib_figure import save_figure

SVG = "{http://www.w3.org/2000/svg}text"
pytest.importorskip("matplotlib")


def curve(name: str, values: list[float], metric: str = "log10_residual", **more: Any) -> list[Row]:
    return [Row(metric, y, "log10", name, layer, **more) for layer, y in enumerate(values)]


def report_of(*rows: Row, metrics: tuple[str, ...] = ("log10_residual",), **more: Any) -> Report:
    views = tuple(View(f"{name} after each layer; exact", "layer", (name,), "variant") for name in metrics)  # fmt: skip
    known = {name: Definition("log10", "…") for name in metrics}
    return Report(
        "example", "The answer.", rows, known, more.pop("source", {}), views=views, **more
    )


def words_in(report: Report, folder: Path) -> list[str]:
    save_figure(report, folder / "x.svg")
    return ["".join(each.itertext()) for each in ElementTree.parse(folder / "x.svg").iter(SVG)]


MODEL = {"name": "org/small", "revision": "main", "weight_sha256": "abcdef0123", "dtype": "float64"}
TEXT = {"texts": [{"name": "default text", "tokens": 237}]}


def test_the_model_and_the_text_stand_under_the_figure(tmp_path: Path) -> None:
    rows = curve("SAN", [-1.0, -3.0, -9.0])
    report = report_of(*rows, source=MODEL, input=TEXT, environment={"attn": "1.2"})
    said = "org/small · main · weights abcdef01 · float64 · default text (237 tokens) · attn 1.2"
    assert format_figure_caption(report) == said
    assert said in " ".join(words_in(report, tmp_path))


def test_axes_are_words_and_not_names(tmp_path: Path) -> None:
    found = words_in(report_of(*curve("SAN", [-1.0, -3.0])), tmp_path)
    assert {"log₁₀ r", "layer"} <= set(found)
    assert not [word for word in found if "log10_residual" in word]
    assert format_axis_label("offset_share", {}) == "offset share"
    assert format_axis_label("entropy", {"entropy": Definition("nat", "…")}) == "entropy (nat)"


def test_every_metric_has_a_panel_of_its_own(tmp_path: Path) -> None:
    rows = [*curve("SAN", [-1.0, -3.0]), *curve("SAN", [3.0, 1.0], "stable_rank")]
    report = report_of(*rows, metrics=("log10_residual", "stable_rank"))
    assert [one.metric for one in collect_charts(report)] == ["log10_residual", "stable_rank"]
    found = words_in(report, tmp_path)
    assert {"(a)", "(b)", "log₁₀ r", "stable rank"} <= {word.strip() for word in found}
    assert found.count("SAN") == 1


def test_of_many_lines_no_two_look_alike() -> None:
    """In colour, and in black and white; a random twin is its own variant dashed."""
    names = [f"v{index}" for index in range(60)]
    found = assign_line_styles([*names, "v3@random"])
    seen = [(look.colour, look.marker, str(look.dash)) for name, look in found.items() if "@" not in name]  # fmt: skip
    grey = [(look.marker, str(look.dash)) for name, look in found.items() if "@" not in name]
    assert len(set(seen)) == 60
    assert len(set(grey[:12])) == 12 or all(a != b for a, b in pairwise(grey[:12]))
    assert found["v3@random"].colour == found["v3"].colour
    assert found["v3@random"].dash != found["v3"].dash


def legend(report: Report, folder: Path) -> tuple[Any, Any]:
    from matplotlib.figure import Figure

    canvases: list[Figure] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Figure, "savefig", lambda canvas, *_, **__: canvases.append(canvas))
        save_figure(report, folder / "x.png")
    axes = canvases[0].axes[0]
    return axes, axes.get_legend()


def test_a_doubtful_number_is_an_open_marker(tmp_path: Path) -> None:
    rows = [*curve("SAN", [-1.0, -3.0]), Row("log10_residual", -9.0, "log10", "SAN", 2, note="not settled")]  # fmt: skip
    axes, _ = legend(report_of(*rows), tmp_path)
    solid, hollow = axes.get_lines()
    assert list(solid.get_xdata()) == [0, 1, 2]
    assert (list(hollow.get_xdata()), hollow.get_markerfacecolor()) == ([2], "white")


def test_a_series_that_is_lost_says_from_where_on(tmp_path: Path) -> None:
    lost = [Row("log10_residual", None, "log10", "SAN", layer, note="not known") for layer in (2, 3)]  # fmt: skip
    report = report_of(*curve("SAN", [-1.0, -3.0]), *lost, *curve("whole", [-1.0] * 4))
    assert "SAN, not known from layer 2 on" in words_in(report, tmp_path)


@pytest.mark.parametrize("spread", [0.5, None])
def test_spreads_are_bands_and_in_no_legend(spread: float | None, tmp_path: Path) -> None:
    report = report_of(*curve("SAN", [-1.0, -3.0, -5.0, -7.0, -9.0], spread=spread, n=3))
    axes, names = legend(report, tmp_path)
    assert len(axes.collections) == (spread is not None)
    assert [text.get_text() for text in names.get_texts()] == ["SAN"]
    assert ("± standard deviation over 3 seeds" in format_figure_caption(report).replace("\u00a0", " ")) == (spread is not None)  # fmt: skip


def test_a_bound_is_a_line_where_it_says_something(tmp_path: Path) -> None:
    rows = [*curve("SAN", [1.0, -3.0, -9.0], "log10_residual_norm"), *curve("SAN", [1.0, -1.0, -5.0], "log10_bound")]  # fmt: skip
    axes, names = legend(report_of(*rows, metrics=("log10_residual_norm",)), tmp_path)
    _, bound = axes.get_lines()
    assert list(bound.get_ydata()) == [1.0, -1.0, -5.0]
    assert bound.get_marker() == "None"
    assert [text.get_text() for text in names.get_texts()] == ["SAN", "bound of SAN"]
    vacuous = [*rows[:3], *curve("SAN", [50.0, 500.0, 5000.0], "log10_bound")]
    axes, names = legend(report_of(*vacuous, metrics=("log10_residual_norm",)), tmp_path)
    assert axes.get_ylim()[1] < 10
    assert names.get_texts()[1].get_text() == "bound of SAN: 5,000 at the end"


def sweep(lengths: list[int], widths: list[float]) -> Report:
    rows = [Row("d_min", d, "features", keys={"length": n, "fit": "a"}) for n, d in zip(lengths, widths, strict=True)]  # fmt: skip
    laws = [
        Row("aic_above_best", 0.0, "1", keys={"fit": "a", "law": "log"}),
        Row("aic_above_best", 9.0, "1", keys={"fit": "a", "law": "power"}),
        Row("law_at_one_token", 1.0, "features", keys={"fit": "a", "law": "log"}),
        Row("slope", 2.0, "features", keys={"fit": "a", "law": "log"}),
        Row("law_at_one_token", 7.0, "features", keys={"fit": "a", "law": "power"}),
    ]
    views = (View("Smallest width found", "length", ("d_min",), across="fit"),)
    return Report("approximate sweep", "…", (*rows, *laws), {}, {}, views=views)


def test_widths_stand_against_log_n_with_the_law_that_was_fitted(tmp_path: Path) -> None:
    report = sweep([16, 32, 64, 128], [6.5, 7.9, 9.3, 10.7])
    law = find_best_fitted_law(report, "fit", "a")
    assert law is not None
    assert law.evaluate_curve_at(16) == pytest.approx(6.545, abs=1e-3)
    axes, names = legend(report, tmp_path)
    assert (axes.get_xscale(), axes.get_yscale()) == ("log", "linear")
    assert [text.get_text() for text in axes.get_xticklabels()] == ["16", "32", "64", "128"]
    assert [text.get_text() for text in names.get_texts()] == ["a", "d = 1 + 2 ln n"]
    assert axes.get_lines()[1].get_ydata()[-1] == pytest.approx(law.evaluate_curve_at(128))


@pytest.mark.parametrize(
    ("places", "doubling"),
    [([16, 32, 64], True), ([10, 100, 1000], True), ([0, 1, 2], False), ([1, 2, 3, 4], False), ([8, 16], False)],
)  # fmt: skip
def test_log_axes_are_for_sweeps_that_double(places: list[int], doubling: bool) -> None:
    (one,) = collect_charts(sweep(places, [1.0] * len(places)))
    assert is_geometric_sequence(one) == doubling


def test_magnitudes_have_a_log_axis_and_collapse_a_squeezed_one() -> None:
    (far,) = collect_charts(report_of(*curve("a", [1.0, 50.0, 2000.0])))
    (deep,) = collect_charts(report_of(*curve("a", [0.5, -50.0, -2000.0])))
    (near,) = collect_charts(report_of(*curve("a", [100.0, 150.0, 200.0])))
    assert [(is_log_axis_suitable(one), needs_symmetric_log_axis(one)) for one in (far, deep, near)] == [(True, False), (False, True), (False, False)]  # fmt: skip


def test_letters_stay_letters_and_fonts_are_embedded(tmp_path: Path) -> None:
    report = report_of(*curve("SAN", [-1.0, -3.0]))
    assert "SAN" in words_in(report, tmp_path)
    save_figure(report, tmp_path / "x.pdf")
    pdf = (tmp_path / "x.pdf").read_bytes()
    assert b"/FontFile2" in pdf
    assert b"/Type3" not in pdf


def test_log_ticks_are_numbers(tmp_path: Path) -> None:
    report = dataclasses.replace(sweep([16, 32, 64, 128], [1.0, 10.0, 100.0, 900.0]), views=(View("x", "length", ("logit_scale",), across="fit"),))  # fmt: skip
    rows = tuple(dataclasses.replace(row, metric="logit_scale") for row in report.rows if row.metric == "d_min")  # fmt: skip
    assert {"1", "10", "100"} <= set(words_in(dataclasses.replace(report, rows=rows), tmp_path))


def test_the_size_is_the_users(tmp_path: Path) -> None:
    asked = ("rank-collapse", "--layers", "2", "--seeds", "1", "-q")
    path = str(tmp_path / "x.svg")
    assert attn(*asked, "--plot", path, "--figure-size", "3.4x2.6").code == 0
    root = ElementTree.parse(path).getroot()
    assert (root.get("width"), root.get("height")) == ("244.8pt", "187.2pt")


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (("--figure-size", "3x2"), "--figure-size is of a figure in a file"),
        (("--plot", "x.pdf", "--figure-size", "3"), "--figure-size 3: write width and height"),
        (("--plot", "x.pdf", "--figure-size", "0.1x3"), "1 to 40, as in 3.4x2.6"),
        (("--plot", "x.pdf", "--figure-size", "999x3"), "1 to 40, as in 3.4x2.6"),
    ],
)
def test_sizes_that_are_none_are_refused(
    more: tuple[str, ...], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    outcome = attn("rank-collapse", "--layers", "2", *more)
    assert (outcome.code, said in outcome.err) == (2, True)
    assert not list(tmp_path.iterdir())


def test_no_date_and_no_place_of_this_machine_is_inside(tmp_path: Path) -> None:
    save_figure(report_of(*curve("SAN", [-1.0, -3.0]), source={"path": "/home/me/model"}), tmp_path / "x.svg")  # fmt: skip
    text = (tmp_path / "x.svg").read_text()
    assert "/home/me" not in text
    assert not re.search(r"20\d\d-\d\d-\d\d", text)


def test_an_answer_is_drawn_from_python(tmp_path: Path) -> None:
    import attncli

    answer = attncli.rank_collapse(layers=2, seeds=1)
    assert answer.plot(tmp_path / "x.pdf", size=(3.4, 2.6)).read_bytes().startswith(b"%PDF-")
    with pytest.raises(attncli.AttnError, match=r"x\.jpg: the file must end in \.png"):
        answer.plot(tmp_path / "x.jpg")


def test_r_is_drawn_on_a_linear_axis_with_bands() -> None:
    """As in figure 2 of the paper, though it falls over many decades."""
    networks = [GeneratedNetwork(NetworkSpec(layers=6, tokens=16, width=16), seed) for seed in range(3)]  # fmt: skip
    report = measure_network_collapse(
        networks, parse_ablation_variants(["paper"]), ["residual"], {"kind": "synthetic"}
    )
    (axes,) = draw_curve_figure(report).axes
    assert axes.get_yscale() == "linear"
    assert axes.get_ylabel() == "r"
    assert len(axes.collections) == 4
    values = [row.value for row in report.rows if row.metric == "residual"]
    logs = [row.value for row in report.rows if row.metric == "log10_residual"]
    assert len(values) == len(logs) == 28
    assert min(filter(None, values)) < 1e-30 < 0.1 < max(filter(None, values))
