"""Maps for pages: the chosen heads in bytes, from strips of any length, and never more than there is room for."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from commands import attn
from hypothesis import given
from hypothesis import strategies as st
from page_numbers import Numbers
from small_checkpoints import model_of
from transformers import AutoModel

import attncli
from attncli.analysis.heads.map_export.attention_map_thumbnails import (
    HELD,
    LARGEST,
    ROOM,
    SMALLEST,
    Thumbnails,
    choose_thumbnail_size,
    make_head_selector,
)
from attncli.analysis.heads.map_export.collected_maps import coarsen_map_by_maximum
from attncli.analysis.heads.report_rows.token_names import TokenNames
from attncli.capture import AttentionSite, MapShape, Strip
from attncli.records import Row
from attncli.render.html_page.head_map_thumbnails import STEPS

SITE = AttentionSite("h", 2, "self", "full", "h.2.attn")


def everything(layer: int, head: int) -> bool:
    return True


def taken(weights: torch.Tensor, rows: int, side: int) -> Thumbnails:
    """All heads, in strips of so many rows that leave out the keys which none of their rows sees."""
    small = Thumbnails(side, lambda site: list(range(len(weights))))
    queries, keys = weights.shape[1:]
    for start in range(0, queries, rows):
        part = weights[:, start : start + rows]
        seen = (part > 0.0).any(dim=0).any(dim=0).nonzero()
        first, last = (int(seen[0]), int(seen[-1]) + 1) if len(seen) else (0, 1)
        small.accumulate_map_rows(
            SITE, Strip(part[None, :, :, first:last], start, first, queries, keys)
        )
    return small


@given(st.integers(1, 3), st.integers(1, 40), st.integers(1, 40), st.integers(1, 9), st.integers(2, 40), st.booleans())  # fmt: skip
def test_strips_make_the_map_or_the_largest_weight_of_each_square(
    heads: int, queries: int, keys: int, rows: int, side: int, windowed: bool
) -> None:
    """Held against the whole map, made coarser at once."""
    weights = torch.rand(heads, queries, keys, generator=torch.Generator().manual_seed(queries))
    if windowed:
        back = torch.arange(queries)[:, None] - torch.arange(keys)
        weights = weights * ((back >= 0) & (back < 5))
    (tiles,) = taken(weights, rows, side).maps.values()
    step = math.ceil(max(queries, keys) / side)
    for (head, cells, full), whole in zip(tiles, weights.numpy(), strict=True):
        found = np.frombuffer(cells, np.uint8).astype(float) * full / STEPS
        padded = np.zeros((math.ceil(queries / step) * step, math.ceil(keys / step) * step))
        padded[:queries, :keys] = whole
        squares = padded.reshape(padded.shape[0] // step, step, padded.shape[1] // step, step)
        wanted = squares.max(axis=(1, 3))
        assert head in range(heads)
        assert full == pytest.approx(whole.max())
        assert np.abs(found - wanted.ravel()).max() <= 0.5 * full / STEPS + 1e-9


def test_large_maps_agree_with_those_of_plots() -> None:
    weights = torch.rand(1, 450, 450, generator=torch.Generator().manual_seed(0))
    ((_, cells, full),) = taken(weights, 64, 200).maps[SITE]
    found = np.frombuffer(cells, np.uint8).reshape(150, 150) * full / STEPS
    assert np.abs(found - coarsen_map_by_maximum(weights[0].numpy())).max() <= 0.5 / STEPS


def test_what_has_no_place_on_a_page_is_left_out() -> None:
    """Windows that have no place in the text, differences that fall below 0, maps that come again."""
    small = Thumbnails(8, lambda site: [0])
    weights = torch.rand(1, 1, 2, 2)
    small.accumulate_map_rows(SITE, Strip(weights.expand(3, 1, 2, 2), 0, 0, 2, 2))
    assert small.maps == {}
    small.accumulate_map_rows(SITE, Strip(weights, 0, 0, 2, 2))
    before = small.maps[SITE]
    small.accumulate_map_rows(SITE, Strip(weights * 0.1, 0, 0, 2, 2, round=1))
    assert small.maps[SITE] is before


def test_only_heads_that_are_reported_have_a_map() -> None:
    small = taken(torch.rand(3, 4, 4), 2, 8)
    row = Row("sink", 0.5, "1", layer=2, head=1)
    (tile,) = small.build_thumbnails(TokenNames("abcd"), {SITE: {}}, {}, [row])
    assert (tile.head, tile.rows, tile.columns, tile.step) == ("2.1", 4, 4, 1)
    assert tile.queries == tile.keys == ("a", "b", "c", "d")
    keys = {SITE: {"stack": "decoder", "kind": "cross", "span": "full"}}
    named = Row("sink", 0.5, "1", layer=2, head=7, keys=keys[SITE])
    (tile,) = small.build_thumbnails(TokenNames(""), keys, {SITE: (5, 6, 7)}, [named])
    assert (tile.head, tile.queries) == ("decoder cross 2.7", ())


@given(st.integers(1, 80), st.integers(1, 64), st.integers(1, 5000), st.none() | st.integers(1, 99))
def test_there_is_always_room(layers: int, heads: int, tokens: int, top: int | None) -> None:
    shapes = {
        AttentionSite("h", each, "self", "full", f"h.{each}"): MapShape(heads, tokens, tokens)
        for each in range(layers)
    }
    chosen = make_head_selector(None, everything, shapes)
    side = choose_thumbnail_size(shapes, chosen, True, top)
    assert side is not None
    assert SMALLEST <= side <= LARGEST
    shown = min(top or layers * heads, layers * heads)
    if side > SMALLEST:
        assert side**2 * shown <= ROOM
        assert side**2 * layers * heads <= HELD
    unasked = choose_thumbnail_size(shapes, chosen, False, None)
    assert unasked is None or tokens <= unasked


def page_of(folder: Path, options: list[str]) -> Any:
    out = folder / "r.html"
    done = attn("inspect-model", str(folder), "--token-ids", "3,1,4,1,5", *options, "-o", str(out))
    assert done.code == 0, done.err
    return Numbers(out.read_text())


def maps_in(numbers: Any) -> dict[str, Any]:
    found = {}
    for each in numbers.header["maps"]:
        (panel,) = each["panels"]
        size = panel["rows"] * panel["columns"]
        cells = np.frombuffer(numbers.body[panel["from"] : panel["from"] + size], np.uint8)
        found[each["head"]] = cells.reshape(panel["rows"], panel["columns"]) * panel["full"] / STEPS
    return found


def test_the_maps_in_a_page_are_those_of_the_model(tmp_path: Path) -> None:
    """Every head of a short text, unasked; held against transformers' eager attention."""
    model = model_of("BertModel")
    model.save_pretrained(tmp_path)
    eager = AutoModel.from_pretrained(tmp_path, attn_implementation="eager").eval()
    with torch.no_grad():
        maps = eager(torch.tensor([[3, 1, 4, 1, 5]]), output_attentions=True).attentions
    found = maps_in(page_of(tmp_path, []))
    assert set(found) == {f"{layer}.{head}" for layer in range(2) for head in range(2)}
    for name, cells in found.items():
        layer, head = map(int, name.split("."))
        assert np.abs(cells - maps[layer][0, head].numpy()).max() <= 0.51 / STEPS
    kept = maps_in(page_of(tmp_path, ["--metric", "sink", "--top", "1"]))
    assert len(kept) == 1


@pytest.mark.slow
def test_saved_maps_and_a_decoder_have_them_too(tmp_path: Path) -> None:
    model_of("T5ForConditionalGeneration").save_pretrained(tmp_path)
    found = maps_in(page_of(tmp_path, ["--save-maps", str(tmp_path / "maps.safetensors")]))
    assert {name.rsplit(" ", 1)[0] for name in found} == {"encoder self", "decoder self", "decoder cross"}  # fmt: skip
    out = tmp_path / "again.html"
    assert attn("inspect-maps", str(tmp_path / "maps.safetensors"), "-o", str(out)).code == 0
    again = maps_in(Numbers(out.read_text()))
    assert set(again) == set(found)
    for name, cells in again.items():
        assert np.abs(cells - found[name]).max() <= 1.01 / STEPS


def test_in_python_maps_come_with_pictures(tmp_path: Path) -> None:
    model_of("BertModel").save_pretrained(tmp_path)
    with_maps = attncli.inspect_model(str(tmp_path), token_ids=["3,1,4"], pictures=True)
    assert {tile.head for tile in with_maps.tiles} == {"0.0", "0.1", "1.0", "1.1"}
    assert attncli.inspect_model(str(tmp_path), token_ids=["3,1,4"]).tiles == ()


def test_maps_of_the_callers_own_are_in_their_page(tmp_path: Path) -> None:
    maps = torch.rand(2, 3, 5, 5, generator=torch.Generator().manual_seed(0)).softmax(dim=-1)
    attncli.inspect_maps(maps, labels=list("abcde")).save(tmp_path / "own.html")
    found = Numbers((tmp_path / "own.html").read_text())
    assert {tuple(each["keys"]) for each in found.header["maps"]} == {tuple("abcde")}
    for name, cells in maps_in(found).items():
        layer, head = map(int, name.split("."))
        assert np.abs(cells - maps[layer, head].numpy()).max() <= 0.51 / STEPS
