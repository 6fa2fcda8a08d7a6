"""`attn attribute`: which token is meant, what is said of it, and what is refused."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from commands import attn
from small_checkpoints import saved

from attncli.analysis.paths import decomposed_model
from attncli.commands.attribute.token_position_option import resolve_token_position
from attncli.errors import UsageError
from attncli.tolerances import COMPLETENESS

torch.set_num_threads(1)

LABELS = ("[CLS]", "Ġthe", "▁dog", "##ged", "Ġthe", "on</w>")


@pytest.mark.parametrize(
    ("token", "position"),
    [("0", 0), ("5", 5), ("-1", 5), ("-6", 0), ("dog", 2), ("▁dog", 2), ("ged", 3), ("on", 5), ("[CLS]", 0)],
)  # fmt: skip
def test_a_token_is_a_position_or_a_piece_of_text(token: str, position: int) -> None:
    assert resolve_token_position(token, LABELS, 6) == position


@pytest.mark.parametrize(
    ("token", "labels", "said"),
    [
        ("6", LABELS, "the positions are 0 to 5, or -1 to -6 from the end"),
        ("-7", LABELS, "the positions are 0 to 5"),
        ("the", LABELS, "occurs at several positions: name one of 1, 4"),
        ("cat", LABELS, "there are 0 [CLS], 1 Ġthe, 2 ▁dog"),
        ("cat", (), "tokens have no names here, give a position from 0 to 5"),
        ("cat", LABELS * 20, "and 80 more"),
    ],
)
def test_a_token_that_is_not_one_is_refused(token: str, labels: tuple[str, ...], said: str) -> None:
    with pytest.raises(UsageError) as refused:
        resolve_token_position(token, labels, len(labels) or 6)
    assert said in str(refused.value)


@pytest.fixture(scope="module")
def gpt2(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("gpt2")
    saved("GPT2LMHeadModel", folder)
    return str(folder)


IDS = ("--token-ids", "4,9,17,3,11,5,6")


def report(*arguments: str) -> dict[str, Any]:
    outcome = attn("attribute", *arguments, "--format", "json")
    assert outcome.code == 0, outcome.err
    found: dict[str, Any] = json.loads(outcome.out)
    return found


def by_position(found: dict[str, Any], metric: str) -> dict[int, dict[str, Any]]:
    return {row["position"]: row for row in found["rows"] if row["metric"] == metric}


def one(found: dict[str, Any], metric: str) -> float:
    (value,) = [row["value"] for row in found["rows"] if row["metric"] == metric]
    return float(value)


@pytest.mark.parametrize(("dtype", "error"), [("float64", 1e-12), ("float32", 1e-5)])
def test_shares_add_up_to_one(gpt2: str, dtype: str, error: float) -> None:
    found = report(gpt2, *IDS, "--token", "4", "--dtype", dtype)
    shares = by_position(found, "attribution_share")
    assert sorted(shares) == [0, 1, 2, 3, 4]  # what comes later is not seen
    constants = one(found, "attribution_share_of_constants")
    assert sum(row["value"] for row in shares.values()) + constants == pytest.approx(1.0, abs=error)
    assert one(found, "completeness_error") < error
    assert shares[3]["variant"] == "token 4 11"
    assert shares[3]["word"] == "3"
    assert found["headline"].startswith("Token 4 11 after 2 blocks: ")


def test_lift_is_rollout_beside_that_of_even_attention(gpt2: str) -> None:
    found = report(gpt2, *IDS, "--token", "-1")
    rollout, lift = by_position(found, "rollout"), by_position(found, "rollout_lift")
    assert sum(row["value"] for row in rollout.values()) == pytest.approx(1.0, abs=1e-6)
    assert sum(row["uniform"] for row in rollout.values()) == pytest.approx(1.0, abs=1e-12)
    for place, row in rollout.items():
        assert lift[place]["value"] == pytest.approx(row["value"] / row["uniform"])


def test_the_table_names_the_largest_of_many_and_keeps_all_rows(gpt2: str) -> None:
    out = attn("attribute", gpt2, *IDS, "--token", "-1", "--top", "2").out
    assert "the 2 input tokens with the largest shares" in out
    lines = [line.split() for line in out.splitlines()]
    assert sum(bool(line) and line[0].isdecimal() for line in lines) == 2
    assert len(by_position(report(gpt2, *IDS, "--token", "-1", "--top", "2"), "rollout")) == 7
    every = attn("attribute", gpt2, *IDS, "--token", "-1").out
    assert "token 6 6: input tokens\n" in every
    assert ["6", "6"] in [line.split()[:2] for line in every.splitlines()]


def test_several_texts_of_one_length_have_a_spread(gpt2: str) -> None:
    found = report(gpt2, "--random-tokens", "9", "--samples", "3", "--token", "-1")
    assert all(row["n"] == 3 and row["spread"] is not None for row in found["rows"])
    assert {row["variant"] for row in found["rows"]} == {"token 8"}


@pytest.mark.slow
def test_gates_and_plots_take_it(gpt2: str, tmp_path: Path) -> None:
    told = ("attribute", gpt2, *IDS, "--token", "4", "-q")
    assert attn(*told, "--fail-if", "completeness_error > 1e-4").code == 0
    assert attn(*told, "--fail-if", "attribution_share[position=4] < 100").code == 1
    assert "attribution_share\n" in attn(*told, "--plot").out
    assert attn(*told, "--plot", str(tmp_path / "shares.png")).code == 0


def test_images_and_encoders_are_attributed_too() -> None:
    found = report("random:vit?tiny", "--token", "0")
    assert one(found, "completeness_error") < 1e-5
    assert "word" not in next(iter(by_position(found, "rollout").values()))
    for arch in ("t5", "layoutlm"):  # layoutlm's mask is one row for all queries
        found = report(f"random:{arch}?tiny", "--random-tokens", "9", "--token", "1")
        assert found["source"]["stack"] == "encoder"
        assert len(by_position(found, "attribution_share")) == 9
        assert sum(
            row["uniform"] for row in by_position(found, "rollout").values()
        ) == pytest.approx(1)


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("--token", "7"), 2, "the positions are 0 to 6"),
        (("--token", "dog"), 2, "no token is 'dog': there are 0 4, 1 9"),
        (("--token", "1", "--metric", "sink"), 2, "no such option: --metric"),
        (("--token", "1", "--weights-only"), 2, "no such option: --weights-only"),
        (("--token", "1", "--heads", "0", "--sort", "sink"), 2, "no such option: --heads"),
        (("--token", "1", "--with-random-init"), 2, "no such option: --with-random-init"),
        (("--token", "1", "--top", "0"), 2, "--top 0: it must be at least 1"),
        (("--token", "1", "--dtype", "bfloat16"), 2, "would drown the terms"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)  # fmt: skip
def test_refusals(gpt2: str, arguments: tuple[str, ...], code: int, said: str) -> None:
    outcome = attn("attribute", gpt2, *IDS, *arguments)
    assert (outcome.code, outcome.out) == (code, "")
    assert said in outcome.err


def test_what_cannot_be_decomposed_is_refused_by_name(tmp_path: Path) -> None:
    outcome = attn("attribute", "random:bloom?tiny", "--random-tokens", "9", "--token", "1")
    assert outcome.code == 3
    assert "there is no rule for baddbmm" in outcome.err
    maps = str(tmp_path / "maps.safetensors")
    attn("generate", "maps", "--map", "uniform", "--tokens", "8", "-o", maps)
    outcome = attn("attribute", maps, "--token", "1")
    assert (outcome.code, "is a file of attention maps" in outcome.err) == (3, True)


def test_texts_of_several_lengths_are_refused(gpt2: str, tmp_path: Path) -> None:
    told = ("--random-tokens", "9", "--samples", "2", "--token", "dog")
    assert "with several texts: give a position" in attn("attribute", gpt2, *told).err


@pytest.mark.slow
def test_above_the_tolerance_nothing_is_reported(
    gpt2: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In float32 it is tried again in float64; where the type was chosen, or is float64, that is the end."""
    monkeypatch.setattr(decomposed_model, "COMPLETENESS", replace(COMPLETENESS, number=1e-9))
    found = report(gpt2, *IDS, "--token", "4")
    assert one(found, "completeness_error") < 1e-12
    assert any("run again in float64: token_ids" in text for text in found["warnings"])
    chosen = attn("attribute", gpt2, *IDS, "--token", "4", "--dtype", "float32")
    assert (chosen.code, chosen.out) == (3, "")
    assert "large terms cancel here: use --dtype float64" in chosen.err
    monkeypatch.setattr(decomposed_model, "COMPLETENESS", replace(COMPLETENESS, most=-1.0))
    assert attn("attribute", gpt2, *IDS, "--token", "4").code == 3
