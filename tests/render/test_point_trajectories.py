"""Ways in the plane: what is drawn is what was walked, and every panel has its place."""

import dataclasses
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from commands import attn
from matplotlib.figure import Figure

import attncli
from attncli.records import PointTrack, Report
from attncli.render.json import build_document, json
from attncli.render.plots.matplotlib_figure import draw_report_figure, save_figure
from attncli.render.plots.point_trajectories import draw_point_track
from attncli.reports.json_report_reading import parse_json_report

ARC = (((1.0, 0.0), (0.0, 1.0)), ((-1.0, 0.0), (0.0, -1.0)))
WALK = (((1.0, 0.0), (0.5, 0.5), (0.2, 0.1)), ((-1.0, 0.0), (-0.5, -0.5), (0.2, 0.1)))
REPORT = Report("example", "Two points.", (), {}, {}, tracks=tuple(PointTrack(f"width {width}", name, WALK, ARC) for width in (8, 16) for name in ("SAN", "SAN+skip", "both")))  # fmt: skip


def test_what_is_drawn_is_what_was_walked() -> None:
    axes = Figure().subplots()
    draw_point_track(axes, REPORT.tracks[0])
    lines = [line.get_xydata().tolist() for line in axes.lines]
    assert lines[:2] == [[list(place) for place in way] for way in ARC]
    assert lines[2] == [list(place) for place in WALK[0]]
    assert lines[3:5] == [[[1.0, 0.0]], [[0.2, 0.1]]]
    low, high = axes.get_xlim()
    assert -low == high == pytest.approx(1.08)


def test_a_way_that_runs_off_does_not_make_the_arcs_a_dot() -> None:
    axes = Figure().subplots()
    far = dataclasses.replace(REPORT.tracks[0], ways=(((0.0, 0.0), (1e6, 0.0)),))
    draw_point_track(axes, far)
    assert axes.get_xlim()[1] == pytest.approx(4.32)


def test_a_panel_for_every_width_and_variant(tmp_path: Path) -> None:
    canvas = draw_report_figure(REPORT)
    assert len(canvas.axes) == 6
    assert [axes.get_title() for axes in canvas.axes[:3]] == ["SAN", "SAN+skip", "both"]
    assert [axes.get_ylabel() for axes in canvas.axes[::3]] == ["width 8", "width 16"]
    save_figure(REPORT, tmp_path / "x.svg")
    assert "from o to x" in "".join(ElementTree.parse(tmp_path / "x.svg").getroot().itertext())


def test_saved_reports_have_none() -> None:
    assert "tracks" not in build_document(REPORT)
    assert parse_json_report(json(REPORT)).tracks == ()


def test_the_circle_takes_its_first_seeds_ways_along(tmp_path: Path) -> None:
    """From the taught start, one place for every step; the distances of the rows are those of the ways."""
    report = attncli.reproduce.circle(width=8, variants="SAN,SAN+skip", seeds=2, train_steps=3, recurrence=5)  # fmt: skip
    assert [(track.row, track.column) for track in report.tracks] == [("width 8", "SAN"), ("width 8", "SAN+skip")]  # fmt: skip
    for track in report.tracks:
        ways, arcs = np.array(track.ways), np.array(track.taught)
        assert ways.shape == (2, 6, 2)
        assert ways[:, 0] == pytest.approx(arcs[:, 0])
        assert np.linalg.norm(arcs, axis=2) == pytest.approx(0.3)
        far = np.linalg.norm(ways - arcs[:, :6], axis=2).max(axis=0) / 0.3
        error = next(row for row in report.rows if row.metric == "arc_error" and row.variant == track.column)  # fmt: skip
        assert error.each[0] == pytest.approx(np.sqrt((far**2).mean()))
    plotted = attn("reproduce", "circle", "--width", "8", "--variants", "SAN", "--seeds", "1", "--train-steps", "2", "--recurrence", "3", "-q", f"--plot={tmp_path / 'x.png'}")  # fmt: skip
    assert plotted.code == 0
    assert (tmp_path / "x.png").stat().st_size > 5000
