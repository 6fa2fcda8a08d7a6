"""Curves, boxes, texts, maps and the table of all numbers, in a browser."""

import itertools
import re
from dataclasses import replace
from typing import Any

import pytest
from browser import Opened
from page_reports import HOSTILE, of_curves, of_heads, of_maps, of_tiles, of_words

from attncli.maths.number_format import format_with_standard_deviation
from attncli.records import Report, Row, View
from attncli.render.html import html
from attncli.reports.report_comparison import compare_reports

pytestmark = pytest.mark.slow

CHART = "section.view .chart svg"


def texts(page: Any, selector: str) -> list[str]:
    found: list[str] = page.locator(selector).all_inner_texts()
    return found


def table(page: Any) -> list[list[str]]:
    script = "lines => lines.map(line => [...line.children].map(cell => cell.textContent))"
    found: list[list[str]] = page.locator("section.view .wide tr").evaluate_all(script)
    return found


def test_curves_have_every_point_and_their_table_every_number(opened: Opened) -> None:
    page = opened.page(html(of_curves()))
    for name, points in (("SAN", 6), ("SAN+skip", 6), ("float64", 5)):
        curve = page.locator(f"{CHART} g[data-series='{name}']")
        assert curve.locator(".mark").count() == points
        assert curve.locator(".band").count() == (0 if name == "float64" else 1)
    assert page.locator(f"{CHART} .lost").count() == 1
    assert page.locator(f"{CHART} .mark.open").count() == 1
    assert "floor (-7" in page.inner_text(".keys-of-lines")
    header, first, *_ = table(page)
    assert header == ["layer", "SAN", "SAN+skip", "float64"]
    assert first[:2] == ["0", format_with_standard_deviation(-1.0, 0.1)]
    assert table(page)[6][1] == format_with_standard_deviation(-243.0, 0.1)


def test_a_place_on_a_curve_is_read_by_pointer_and_by_keys(opened: Opened) -> None:
    page = opened.page(html(of_curves()))
    box = page.locator(CHART).bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + box["width"] * 0.975, box["y"] + 50)
    tip = page.inner_text("#tip")
    for wanted in ("layer 5", "-243.0", "no number", "not known in float64"):
        assert wanted in tip
    page.locator(CHART).focus()
    page.keyboard.press("ArrowLeft")
    assert "layer 4" in page.inner_text("#tip")
    assert "SAN -81.0" in page.locator(".said-by-keys").inner_text()


def heights(page: Any) -> list[float]:
    """Of the points of the first curve, from the top."""
    moves = page.locator(f"{CHART} g[data-series='SAN'] .mark").evaluate_all(
        "marks => marks.map(mark => mark.getAttribute('transform'))"
    )
    return [float(re.findall(r"[\d.]+", move)[1]) for move in moves]


def test_the_axis_is_linear_or_logarithmic_as_one_wishes(opened: Opened) -> None:
    page = opened.page(html(of_curves()))
    steps = [b - a for a, b in itertools.pairwise(heights(page))]
    assert max(steps[2:]) < 1.4 * min(steps[2:])  # cubes are even steps on a log axis
    page.get_by_label("linear").check(force=True)
    steps = [b - a for a, b in itertools.pairwise(heights(page))]
    assert abs(steps[-1] / steps[-2] - 3.0) < 0.1


def test_points_stand_where_the_axis_says(opened: Opened) -> None:
    """Values read off the picture with the help of its own ticks."""
    page = opened.page(html(of_curves()))
    page.get_by_label("linear").check(force=True)
    script = "all => all.map(each => [each.textContent, each.getAttribute('y')])"
    ticks = page.locator(f"{CHART} .tick.y").evaluate_all(script)
    (low, bottom), (high, top) = (
        (float(text), float(y) - 4.0) for text, y in (ticks[0], ticks[-1])
    )
    read = [low + (high - low) * (y - bottom) / (top - bottom) for y in heights(page)]
    wanted = [-(3.0**layer) for layer in range(6)]
    assert all(abs(a - b) < 0.5 for a, b in zip(read, wanted, strict=True))


def test_a_bound_is_dashed_in_the_colour_of_its_curve(opened: Opened) -> None:
    page = opened.page(html(of_curves()))
    assert page.locator(f"{CHART} .dashed").count() == 0
    page.locator("section.view select").select_option("log10_residual_norm")
    assert page.locator(f"{CHART} path.dashed").count() == 2
    assert "bound of SAN" in page.inner_text(".keys-of-lines")


def test_a_fitted_law_is_drawn_through_its_points(opened: Opened) -> None:
    """c n^e of the report's own numbers; hovering reads it at the lengths."""
    lengths = (16, 32, 64, 128)
    keys = {"fit": "a", "law": "power"}
    rows = [Row("d_min", float(n**0.5), "features", keys={"length": n, "fit": "a"}) for n in lengths]  # fmt: skip
    rows += [Row("aic_above_best", 0.0, "1", keys=keys), Row("law_at_one_token", 1.0, "features", keys=keys), Row("exponent", 0.5, "1", keys=keys)]  # fmt: skip
    rows += [Row("aic_above_best", 3.0, "1", keys={"fit": "a", "law": "log"})]
    view = View("Smallest width", "length", ("d_min",), across="fit")
    page = opened.page(html(Report("approximate sweep", "d", tuple(rows), {}, {}, views=(view,))))
    assert page.locator(f"{CHART} path.dashed").count() == 1
    assert table(page)[0] == ["length", "a", "a: power law"]
    assert [line[1:] for line in table(page)[1:]] == [["4", "4"], ["5.657", "5.657"], ["8", "8"], ["11.31", "11.31"]]  # fmt: skip


def test_two_reports_of_curves_lie_on_each_other(opened: Opened) -> None:
    old = of_curves()
    moved = tuple(
        replace(row, value=row.value - 1.0) if row.value is not None else row for row in old.rows
    )
    report = compare_reports(old, replace(old, rows=moved), ("old.json", "new.json"), 20)
    page = opened.page(html(report))
    page.locator("section.view select").select_option("log10_residual")
    chart = page.locator(CHART)
    assert chart.locator("path.line").count() == chart.locator("path.dashed").count() == 3
    lines = page.locator("section.view:has(.chart) .wide tr").evaluate_all(
        "lines => lines.map(line => [...line.children].map(cell => cell.textContent))"
    )
    place = lines[0].index("SAN"), lines[0].index("SAN, old")
    assert [lines[4][each] for each in place] == ["-28", "-27"]


def test_a_curve_is_switched_off_and_on(opened: Opened) -> None:
    page = opened.page(html(of_curves()))
    page.locator(".keys-of-lines label", has_text="SAN+skip").locator("input").uncheck()
    assert page.locator(f"{CHART} g[data-series='SAN+skip']").count() == 0
    page.locator(".keys-of-lines label", has_text="SAN+skip").locator("input").check()
    assert page.locator(f"{CHART} g[data-series='SAN+skip']").count() == 1


def test_doubling_lengths_stand_at_even_distances(opened: Opened) -> None:
    rows = tuple(Row("d_min", float(n.bit_length()), "features", keys={"length": n, "fit": "a"}) for n in (16, 32, 64, 128))  # fmt: skip
    report = Report("approximate sweep", "d grows.", rows, {}, {}, views=(View("Smallest width", "length", ("d_min",), across="fit"),))  # fmt: skip
    page = opened.page(html(report))
    moves = page.locator(f"{CHART} .mark").evaluate_all("marks => marks.map(mark => mark.getAttribute('transform'))")  # fmt: skip
    xs = [float(re.findall(r"[\d.]+", move)[0]) for move in moves]
    steps = [b - a for a, b in itertools.pairwise(xs)]
    assert max(steps) - min(steps) < 0.3
    assert page.locator(f"{CHART} .tick.x").all_text_contents() == ["16", "32", "64", "128"]


def test_boxes_of_quantiles(opened: Opened) -> None:
    rows = tuple(
        Row("log10_path_norm", 10.0 * x + q, "log10", keys={"length": x, "quantile": q})
        for x in (1, 2, 3)
        for q in (0.05, 0.25, 0.5, 0.75, 0.95)
    )
    view = View("quantiles", "length", ("log10_path_norm",), across="quantile")
    page = opened.page(html(Report("paths", "Longer.", rows, {}, {}, views=(view,))))
    assert page.locator("g.box").count() == 3
    page.locator("g.box").nth(1).focus()
    assert "20.50" in page.inner_text("#tip")


def test_a_text_is_shaded_and_signed(opened: Opened) -> None:
    page = opened.page(html(of_words()))
    words = page.locator("p.text > span")
    assert words.count() == 5
    signs = words.evaluate_all("all => all.map(word => word.classList.contains('below') ? -1 : 1)")
    assert signs == [-1, -1, 1, 1, 1]
    assert page.locator("p.text script").count() == 0
    assert "<script>alert(1)" in words.nth(3).inner_text()
    words.nth(0).focus()
    page.keyboard.press("ArrowRight")
    assert "-0.3000" in page.inner_text("#tip")


def test_maps_stand_side_by_side_with_their_largest_weights(opened: Opened) -> None:
    page = opened.page(html(of_maps()))
    assert page.locator("#maps canvas").count() == 3
    assert texts(page, "#maps figcaption") == ["target · darkest = 1", "achieved · darkest = 1", "error · darkest = 0.04000"]  # fmt: skip
    pixel = "canvas => [...canvas.getContext('2d').getImageData(0, 0, 1, 1).data.slice(0, 3)]"
    dark = page.locator("#maps canvas").first.evaluate(pixel)
    assert sum(dark) < 200
    page.locator("#maps canvas").first.hover()
    assert "0.50" in page.inner_text("#tip")
    page.locator("#maps details summary").click()
    assert "token 0 ← token 0" in page.locator("#maps table").inner_text()


def test_all_numbers_are_sorted_and_filtered(opened: Opened) -> None:
    report = of_heads(30, 9)
    page = opened.page(html(report))
    count = len(report.rows)
    assert page.inner_text("#all .count") == f"{count:,} numbers"
    assert page.locator("#all tbody tr").count() < 80
    page.fill("#filter", "metric=sink layer=7")
    page.wait_for_selector("#all .count:text-matches('^9 of')")
    page.get_by_role("button", name="value", exact=True).click()
    own = sorted((row.value or 0.0 for row in report.rows if row.metric == "sink" and row.layer == 7), reverse=True)  # fmt: skip
    place = page.locator("#all thead th").all_text_contents().index("value")
    cells = page.locator(f"#all tbody tr td:nth-child({place + 1})").all_inner_texts()
    assert [f"{value:.4g}" for value in own] == [f"{float(cell):.4g}" for cell in cells]
    assert page.locator("#all th[aria-sort=descending]").count() == 1
    assert "filter=metric" in page.url
    page.fill("#filter", "value>0.99 metric=sink")
    many = sum(row.metric == "sink" and (row.value or 0.0) > 0.99 for row in report.rows)
    page.wait_for_selector(f"#all .count:text-matches('^{many} of')")


def test_a_long_table_shows_what_is_scrolled_to(opened: Opened) -> None:
    page = opened.page(html(of_heads(30, 9)))
    page.locator("#all .scroller").evaluate("each => each.scrollTo(0, each.scrollHeight)")
    page.wait_for_selector("#all td:has-text('token_cosine_gap')")
    assert page.locator("#all tbody tr[aria-rowindex]").last.get_attribute("aria-rowindex") == str(
        len(of_heads(30, 9).rows) + 1
    )


AA = """() => {
  const canvas = document.createElement('canvas'); canvas.width = canvas.height = 1;
  const context = canvas.getContext('2d', { willReadFrequently: true });
  const rgb = (colour) => { context.clearRect(0, 0, 1, 1); context.fillStyle = colour; context.fillRect(0, 0, 1, 1); return [...context.getImageData(0, 0, 1, 1).data]; };
  const light = (colour) => { const [r, g, b] = rgb(colour).slice(0, 3).map((v) => { v /= 255; return v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; }); return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
  const ground = (element) => { for (let each = element; each; each = each.parentElement) { const colour = getComputedStyle(each).backgroundColor; if (rgb(colour)[3] === 255) return colour; } return 'white'; };
  const poor = [];
  const check = (element, colour) => { const [a, b] = [light(colour), light(ground(element))]; const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05); if (ratio < 4.45) poor.push([element.tagName, element.className?.baseVal ?? element.className, element.textContent.slice(0, 20), ratio]); };
  for (const element of document.querySelectorAll('body *:not(script)')) {
    const own = [...element.childNodes].some((node) => node.nodeType === 3 && node.data.trim());
    if (!own || !element.checkVisibility()) continue;
    const style = getComputedStyle(element);
    check(element, element instanceof SVGElement ? style.fill : style.color);
  }
  const cell = document.querySelector('.grids td');
  if (cell) for (const kind of ['', 'below', 'above']) for (let share = 0; share <= 100; share += 1) {
    cell.className = kind; cell.style.setProperty('--shade', share + '%');
    check(cell, getComputedStyle(cell).color);
  }
  return poor;
}"""


@pytest.mark.slow
def test_every_text_can_be_read_by_day_by_night_and_on_paper(opened: Opened) -> None:
    """Contrast AA of every text on its ground, and of every shade that a cell can have."""
    for report in (of_tiles(), of_curves(), of_words()):
        for window in ({"color_scheme": "light"}, {"color_scheme": "dark"}, {"color_scheme": "dark", "media": "print"}):  # fmt: skip
            media = window.pop("media", None)
            page = opened.page(html(report), "#head=0.1&metric=sink", **window)
            if media:
                page.emulate_media(media=media)
            assert page.evaluate(AA) == []


@pytest.mark.slow
def test_every_control_has_a_name_and_every_picture_a_table(opened: Opened) -> None:
    for report in (of_tiles(), of_curves(), of_words(), of_maps()):
        page = opened.page(html(report), "#head=0.1&metric=sink")
        nameless = "all => all.filter(each => !(each.labels?.length || each.textContent.trim() || each.getAttribute('aria-label'))).length"  # fmt: skip
        assert page.locator("button, select, input").evaluate_all(nameless) == 0
        unnamed = "all => all.filter(each => !each.getAttribute('aria-label') && !each.closest('[aria-hidden], label')).length"  # fmt: skip
        assert page.locator("svg, canvas").evaluate_all(unnamed) == 0
        bare = "all => all.filter(each => !each.closest('section, aside').querySelector('table')).length"  # fmt: skip
        assert page.locator("svg, canvas").evaluate_all(bare) == 0


@pytest.mark.slow
def test_a_narrow_window_scrolls_no_way_but_down(opened: Opened) -> None:
    for report in (of_heads(6, 12), of_curves(), of_words(), of_maps()):
        page = opened.page(html(report), "#head=1.1", viewport={"width": 400, "height": 800})
        assert page.evaluate("document.documentElement.scrollWidth") <= 400


def test_the_guard_of_these_tests_sees_what_it_should(opened: Opened) -> None:
    """A script that is not the page's own is stopped by the policy, and noted."""
    page = html(of_heads()).replace("<main>", "<main><script>document.title = 'broken into'</script>")  # fmt: skip
    shown = opened.page(page.replace("</main>", "<img src='https://example.org/x.png'></main>"))
    assert shown.title() == "inspect-model: model"
    assert any("script-src" in each for each in opened.mishaps)
    assert any("img-src" in each or "default-src" in each for each in opened.mishaps)
    opened.mishaps.clear()


def test_a_hostile_head_is_found_by_its_address(opened: Opened) -> None:
    report = of_heads(1, 2)
    rows = tuple(replace(row, keys={**row.keys, "stack": HOSTILE}) for row in report.rows)
    page = opened.page(html(replace(report, rows=rows)))
    page.locator("#heads td").first.click()
    address = page.url.partition("#")[2]
    again = opened.page(html(replace(report, rows=rows)), f"#{address}")
    assert again.locator("#head h3").is_visible()
