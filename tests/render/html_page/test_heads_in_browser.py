"""The grid of heads as a user meets it: picked, pointed at, clicked on, walked through with keys, sent as an address."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from browser import Opened
from page_reports import HOSTILE, of_gates, of_heads, of_tiles, share, strongest

from attncli.records import Report, Row
from attncli.render.html import html
from attncli.reports.report_comparison import compare_reports

pytestmark = pytest.mark.slow

EXAMPLE = Path(__file__).parents[3] / "examples" / "minilm.html"
GRID = "#heads table.grid"


def cell(page: Any, name: str) -> Any:
    return page.locator(f"{GRID} td[data-name='{name}']").first


def shade(page: Any, name: str) -> float:
    script = "cell => parseFloat(getComputedStyle(cell).getPropertyValue('--shade'))"
    return float(cell(page, name).evaluate(script))


def test_the_grid_is_a_table_of_the_metric_that_is_picked(opened: Opened) -> None:
    page = opened.page(html(of_heads(4, 3)))
    assert page.locator(f"{GRID} td").count() == 12
    assert cell(page, "0.0").inner_text() in ("S", "·")
    page.select_option("#metric", "entropy")
    numbers = {(layer, head): share(layer, head, 1) for layer in range(4) for head in range(3)}
    for (layer, head), value in numbers.items():
        text = cell(page, f"{layer}.{head}").inner_text()
        assert abs(float(text) - value) <= 0.006
    darkest = max(numbers, key=lambda place: numbers[place])
    assert shade(page, "{}.{}".format(*darkest)) == 100.0
    assert "What entropy is." in page.inner_text("#meaning")
    headers = page.locator(f"{GRID} thead th").all_inner_texts()
    assert headers == ["layer", "0", "1", "2"]
    assert page.locator(f"{GRID} caption").inner_text() == "entropy"


def test_pointing_at_a_cell_shows_its_number_and_its_nulls(opened: Opened) -> None:
    page = opened.page(html(of_heads()), "#metric=sink")
    cell(page, "2.1").hover()
    tip = page.inner_text("#tip")
    for wanted in ("Head 2.1", f"{share(2, 1, 0):.4g}", "uniform attention", "0.2500", "random weights", f"{share(1, 2, 0):.4g}"):  # fmt: skip
        assert wanted in tip
    page.keyboard.press("Escape")
    assert page.locator("#tip").is_hidden()


def test_shades_against_a_null_are_signed(opened: Opened) -> None:
    page = opened.page(html(of_heads()), "#metric=sink")
    page.get_by_label("− random weights").check(force=True)
    for layer, head in ((0, 1), (1, 0), (3, 2)):
        above = share(layer, head) >= share(head, layer)
        assert ("above" if above else "below") in (cell(page, f"{layer}.{head}").get_attribute("class") or "")  # fmt: skip


def test_the_strongest_sink_of_thirty_layers_in_two_clicks(opened: Opened) -> None:
    """From the finding in one; from the list of the metric's largest in two."""
    report = of_heads(30, 9)
    name = "{}.{}".format(*strongest(30, 9))
    page = opened.page(html(report))
    page.click("#findings a.to-head")
    assert page.locator("#head h3").inner_text().startswith(f"Head {name}")
    assert f"head={name}" in page.url
    page.go_back()
    page.wait_for_selector("#head", state="hidden")
    page.select_option("#metric", "sink")
    page.click(".extremes a.to-head >> nth=0")
    assert page.locator("#head h3").inner_text().startswith(f"Head {name}")
    assert cell(page, name).get_attribute("aria-selected") == "true"


def test_a_head_is_held_against_its_layer(opened: Opened) -> None:
    page = opened.page(html(of_heads(3, 5)))
    cell(page, "1.2").click()
    line = page.locator("#head tr", has_text="sink").first
    rank = 1 + sum(share(1, head) > share(1, 2) for head in range(5))
    assert f"{rank}/5" in line.inner_text()
    assert f"{share(1, 2):.4g}" in line.inner_text()
    page.click("#head .close")
    assert page.locator("#head").is_hidden()


def test_a_head_shows_its_map_and_where_each_token_looks(opened: Opened) -> None:
    page = opened.page(html(of_tiles()), "#head=0.1")
    assert page.locator("#head .queries span").all_text_contents()[2] == "fox"
    canvas = page.locator("#head canvas")
    box = canvas.bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + box["width"] * 0.1, box["y"] + box["height"] * 0.9)
    tip = page.inner_text("#tip")
    assert "fox ← [CLS]" in tip
    assert "0.20" in tip
    page.locator("#head .text button").nth(2).hover()
    assert page.locator("#head .asks .hint").inner_text() == "Where fox (token 2) looks."
    shades = page.locator("#head .text button").evaluate_all(
        "all => all.map(each => parseFloat(getComputedStyle(each).getPropertyValue('--shade')))"
    )
    assert shades == [20.0, 0.0, 80.0]
    before = canvas.evaluate("each => each.toDataURL()")
    page.get_by_label("brighten small weights").check()
    assert canvas.evaluate("each => each.toDataURL()") != before


def test_a_heads_strongest_pairs_stand_beside_even_attention(opened: Opened) -> None:
    page = opened.page(html(of_tiles()), "#head=0.1")
    assert page.locator("#head .pairs td").all_inner_texts() == ["2 ← 0", "0.7500", "0.2500"]
    assert page.locator("#head .pairs th[scope=row]").inner_text() == "fox ← [CLS]"


def test_a_page_says_how_a_map_gets_into_it(opened: Opened) -> None:
    page = opened.page(html(of_heads()), "#head=2.1")
    assert "--heads 2.1" in page.inner_text("#head .hint")


def test_the_offsets_of_a_head_are_drawn_and_listed(opened: Opened) -> None:
    report = of_heads()
    name = "{}.{}".format(*strongest(4, 3))
    page = opened.page(html(report), f"#head={name}")
    assert page.locator("#head svg.profile rect").count() == 4
    page.locator("#head svg.profile rect").first.hover()
    assert "0.5" in page.inner_text("#tip")
    page.locator("#head details summary").first.click()
    assert "0.25" in page.locator("#head figure table").inner_text()


def test_keys_walk_the_grid_and_open_a_head(opened: Opened) -> None:
    page = opened.page(html(of_heads(4, 3)))
    cell(page, "0.0").focus()
    for key in ("ArrowDown", "ArrowRight", "End", "ArrowDown", "Home", "ArrowRight"):
        page.keyboard.press(key)
    focused = "document.activeElement.dataset.name"
    assert page.evaluate(focused) == "2.1"
    assert "Head 2.1" in page.inner_text("#tip")
    page.keyboard.press("Enter")
    assert page.locator("#head h3").inner_text().startswith("Head 2.1")
    assert page.evaluate(f"document.querySelectorAll('{GRID} td[tabindex=\"0\"]').length") == 1


def test_an_address_brings_back_what_was_looked_at(opened: Opened) -> None:
    page = opened.page(html(of_heads()), "#head=3.1&metric=entropy")
    assert page.locator("#head h3").inner_text().startswith("Head 3.1")
    assert page.input_value("#metric") == "entropy"
    page = opened.page(html(of_heads()), "#head=99.1&metric=nonsense")
    assert page.locator("#head").is_hidden()
    assert page.input_value("#metric") == "role"


def test_stacks_have_grids_of_their_own(opened: Opened) -> None:
    report = of_heads(2, 2)
    rows = [
        replace(row, keys={**row.keys, "stack": stack, "kind": "self"})
        for stack in ("encoder", "decoder")
        for row in report.rows
        if row.head is not None
    ]
    page = opened.page(html(replace(report, rows=tuple(rows), findings=())), "#metric=sink")
    captions = page.locator(f"{GRID} caption").all_inner_texts()
    assert captions == ["encoder self · sink", "decoder self · sink"]
    cell(page, "decoder self 1.0").click()
    assert page.locator("#head h3").inner_text().startswith("Head decoder self 1.0")


def test_two_reports_and_what_moved_stand_side_by_side(opened: Opened) -> None:
    old = of_heads(2, 2)
    moved = tuple(
        replace(row, value=row.value - 0.25) if row.metric == "sink" and row.value else row
        for row in old.rows
    )
    report = compare_reports(old, replace(old, rows=moved), ("old.json", "new.json"), 20)
    page = opened.page(html(report), "#metric=sink")
    captions = page.locator(f"{GRID} caption").all_inner_texts()
    assert captions == ["old · sink", "new · sink", "change · sink"]
    last = page.locator(GRID).nth(2).locator("td")
    assert last.all_inner_texts() == ["-.25"] * 4
    assert all("below" in (last.nth(index).get_attribute("class") or "") for index in range(4))
    last.nth(3).hover()
    assert "-0.2500" in page.inner_text("#tip")


def test_gates_come_first_and_failed_ones_before_the_rest(opened: Opened) -> None:
    page = opened.page(html(of_gates()))
    first = page.locator("main > section:visible").first
    assert first.get_attribute("id") == "gates"
    assert [line.split()[0] for line in page.locator(".gates li").all_inner_texts()] == ["FAIL", "pass"]  # fmt: skip


def hostile() -> Report:
    report = of_heads(2, 2)
    rows = (*report.rows, Row(HOSTILE, 0.5, "1", layer=0, head=0), Row("sink", 0.1, "1", layer=0, head=1, keys={"stack": HOSTILE}))  # fmt: skip
    finding = replace(report.findings[0], about=HOSTILE, text=f"{HOSTILE} 0.0 (1)", heads=("0.0",))
    return replace(report, rows=rows, headline=HOSTILE, findings=(finding,), warnings=(HOSTILE,))


def test_hostile_names_stay_text(opened: Opened) -> None:
    page = opened.page(html(hostile()))
    before = page.locator("script").count()
    for name in page.locator("#metric option").evaluate_all("all => all.map(each => each.value)"):
        page.select_option("#metric", name)
        page.locator(f"{GRID} td:visible").last.hover()
    page.locator(f"{GRID} td:visible").last.click()
    page.fill("#filter", "<script>")
    assert page.locator("script").count() == before
    assert "<script>alert(1)</script>" in page.inner_text("h1")
    assert "\u202e" not in page.content()


def test_without_a_script_the_words_and_tables_are_there(opened: Opened) -> None:
    page = opened.page(html(of_heads()), java_script_enabled=False)
    assert "model: 4 attention layers." in page.inner_text("h1")
    assert page.locator("section.view td").count() >= 12
    assert "need JavaScript" in page.inner_text("body")


def test_the_example_opens_as_it_was_made(opened: Opened) -> None:
    """A trained model: the head that looks back at the same token."""
    page = opened.page(EXAMPLE.read_text(), "#head=2.9&metric=duplicate_token")
    assert "2.9 (0.5" in page.inner_text(".extremes")
    words = page.locator("#head .text button").all_inner_texts()
    assert words[2] == words[15] == "mary"
    page.locator("#head .text button").nth(15).hover()
    assert shade_of(page, 2) > 60.0


def shade_of(page: Any, token: int) -> float:
    script = "each => parseFloat(getComputedStyle(each).getPropertyValue('--shade'))"
    return float(page.locator("#head .text button").nth(token).evaluate(script))
