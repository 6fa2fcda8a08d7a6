"""What a page is without a browser: the same bytes each time, closed to everything outside, its numbers unharmed."""

import base64
import hashlib
import re
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from page_numbers import Elements, Numbers
from page_reports import HOSTILE, of_curves, of_gates, of_heads, of_maps, of_tiles, of_words
from reports import HAND_MADE, renamed, reports, texts_in

from attncli.records import Report, Row
from attncli.render.html import html
from attncli.render.html_page.html_tables import escape_text
from attncli.render.json import json as as_json
from attncli.reports.json_report_reading import parse_json_report
from attncli.sanitize import escape_invisible_characters

EVERY = {"heads": of_heads(), "curves": of_curves(), "words": of_words(), "gates": of_gates(), "maps": of_maps(), "tiles": of_tiles(), "hand": HAND_MADE}  # fmt: skip
each_page = pytest.mark.parametrize("report", EVERY.values(), ids=list(EVERY))


@each_page
def test_the_same_report_gives_the_same_bytes(
    report: Report, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On another day too."""
    first = html(report)
    monkeypatch.setattr("time.time", lambda: 1e9)
    assert html(replace(report)) == first


@each_page
def test_a_saved_report_gives_the_same_page(report: Report) -> None:
    """But for maps, which no other format keeps."""
    report = replace(report, pictures=(), tiles=())
    assert html(parse_json_report(as_json(report))) == html(report)


@pytest.mark.parametrize(
    ("command", "shown"),
    [
        (
            ("attn", "inspect-model", "./m", "--text", "Hi Mary"),
            "attn inspect-model ./m --text 'Hi Mary'",
        ),
        (("attncli.count_paths(layers=2, heads=2)",), "attncli.count_paths(layers=2, heads=2)"),
    ],
)
def test_the_command_can_be_copied_into_a_shell(command: tuple[str, ...], shown: str) -> None:
    assert escape_text(shown) in html(replace(HAND_MADE, command=command))


@each_page
def test_nothing_comes_from_elsewhere(report: Report) -> None:
    page = Elements(html(report))
    for tag, attributes in page.found:
        assert tag not in ("link", "img", "iframe", "object", "embed", "base", "form", "frame")
        assert not {"src", "href", "srcset", "action", "style", "data"} & set(attributes)
        assert not [name for name in attributes if name.startswith("on")]
    assert not re.search(r"https?:|//[a-z]|url\(|@import|\beval\b|innerHTML|Function\(", script_and_style(page))  # fmt: skip


def script_and_style(page: Elements) -> str:
    """Without comments, and without the name of the language of pictures, which is no address."""
    ((_, style),) = page.of("style")
    script = next(text for given, text in page.of("script") if given.get("type") == "module")
    return re.sub(r"(?m)//\s.*$", "", script + style).replace("http://www.w3.org/2000/svg", "")


@each_page
def test_the_policy_allows_this_script_and_style_alone(report: Report) -> None:
    page = Elements(html(report))
    (policy,) = [given["content"] or "" for given, _ in page.of("meta") if given.get("http-equiv")]
    rules = dict(rule.strip().split(" ", 1) for rule in policy.split(";"))
    assert rules.pop("default-src") == "'none'"
    assert rules.pop("base-uri") == rules.pop("form-action") == "'none'"
    scripts = [text for given, text in page.of("script") if given.get("type") == "module"]
    styles = [text for _, text in page.of("style")]
    assert rules == {"script-src": hashed(scripts), "style-src": hashed(styles)}


def hashed(texts: list[str]) -> str:
    (text,) = texts
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


@pytest.mark.parametrize("text", [HOSTILE, "</style><img src=x onerror=alert(1)>", "-->", "]]>"])
def test_hostile_names_add_no_element(text: str) -> None:
    def named(name: str) -> list[tuple[str, list[str]]]:
        report = of_heads()
        row = replace(report.rows[0], metric=name, keys={name: name})
        told = replace(report.findings[0], about=name, text=name, heads=(name,))
        view = replace(report.views[0], title=name, metrics=(name,), across=None, heat="")
        report = replace(
            report,
            headline=name,
            study=name,
            rows=(row, *report.rows),
            findings=(told,),
            views=(view, *report.views),
            warnings=(name,),
            metrics={name: replace(report.metrics["sink"], definition=name)},
            source={name: {name: [name]}},
            command=(name,),
        )
        return [(tag, sorted(given)) for tag, given in Elements(html(report)).found]

    assert named(text) == named("x")


@pytest.mark.slow
@pytest.mark.parametrize("text", [HOSTILE, "a\n::error::b", "\u202e\x9b31m", "\ud800"])
@each_page
def test_every_text_that_travels_to_the_script_is_visible(report: Report, text: str) -> None:
    """Whichever name of the report is hostile."""
    for name in set(texts_in(report)):
        for found in texts_in(Numbers(html(renamed(report, name, text))).header):
            assert found.isprintable()
            assert "::error" not in found


@pytest.mark.slow
@settings(max_examples=60)
@given(report=reports)
def test_every_number_and_word_of_every_row_is_in_the_page(report: Report) -> None:
    """Numbers to seven digits, or exactly where they are very large or small."""
    numbers = Numbers(html(report))
    columns = {name: numbers.column(name) for name in ("metric", "variant", "layer", "head", "value", "spread", "note", "tokens", "pattern", "init-scale")}  # fmt: skip
    assert numbers.header["count"] == len(report.rows)
    for index, row in enumerate(report.rows):
        for name, cells in columns.items():
            own = row.flat().get(name)
            wanted = escape_invisible_characters(own) if isinstance(own, str) else own
            if isinstance(wanted, float):
                assert cells[index] == pytest.approx(wanted, rel=1e-7, abs=0.0)
            else:
                assert cells[index] == wanted


@pytest.mark.slow
@given(st.lists(st.floats(allow_nan=False, allow_infinity=False) | st.integers(), min_size=1))
def test_numbers_beyond_four_bytes_travel_as_they_are(values: list[float]) -> None:
    """Among others, so that the column stays narrow, and alone, so that it is wide; a whole number may be any."""
    rows = tuple(Row("order", value, "1", layer=place) for place, value in enumerate(values))
    plain = tuple(Row("order", 0.5, "1", layer=place) for place in range(30 * len(rows)))
    for held in (rows, rows + plain):
        report = replace(HAND_MADE, rows=held, views=(), findings=())
        found = Numbers(html(report)).column("value")[: len(rows)]
        for own, value in zip(found, values, strict=True):
            assert own == value or own == pytest.approx(value, rel=1e-7, abs=0.0)


def test_the_size_of_a_small_page() -> None:
    """A model of 6 layers × 12 heads with 38 metrics and two nulls."""
    metrics = [f"metric_{index}" for index in range(38)]
    assert len(html(of_heads(6, 12, metrics)).encode()) < 250_000


@pytest.mark.slow
def test_the_size_of_a_large_page() -> None:
    """80 layers × 64 heads."""
    metrics = [f"metric_{index}" for index in range(38)]
    assert len(html(of_heads(80, 64, metrics)).encode()) < 4_000_000
