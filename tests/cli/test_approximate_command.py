"""`attn approximate` from its options to its answer."""

import json
from pathlib import Path

import numpy as np
import pytest
from commands import attn
from safetensors.numpy import load_file

from attncli.maths.head_capacity.width_formulas import compute_circle_logit_scale

FAST = ("--length", "32", "--seeds", "1", "-q")


def test_the_answer_comes_first() -> None:
    done = attn("approximate", "--pattern", "permutation", "--method", "cyclic", *FAST)
    assert done.code == 0
    assert done.out.startswith("d = 2 is enough (cyclic, logits to ")
    assert "the paper's construction would need d ≈" in done.out.splitlines()[0]


@pytest.mark.slow
def test_a_fit_is_written_and_verified_again(tmp_path: Path) -> None:
    path = tmp_path / "fit.safetensors"
    done = attn("approximate", "--pattern", "window:3", "--pattern", "previous", "--causal", *FAST, "-o", str(path))  # fmt: skip
    assert done.code == 0
    assert done.out.startswith("d = ")
    assert load_file(path)["x.1"].shape[0] == 32
    again = attn("verify-fit", str(path), "--format", "json", "--fail-if", "any(meets) < 1")
    assert again.code == 0
    report = json.loads(again.out)
    assert report["study"] == "approximate verify"
    assert report["source"]["module"]["patterns"] == ["window:3", "previous"]


def test_commas_part_methods_and_parameters_alike() -> None:
    done = attn("approximate", "--pattern", "random:k=1", "--width", "24", "--method", "jl:projection=sign,draws=1,convex", *FAST, "--format", "json")  # fmt: skip
    methods = {row["method"] for row in json.loads(done.out)["rows"]}
    assert methods == {"jl:projection=sign,draws=1", "convex"}


@pytest.mark.slow
def test_same_command_same_bytes() -> None:
    command = ("approximate", "--pattern", "random:k=2", *FAST, "--format", "json")
    assert attn(*command).out == attn(*command).out


@pytest.mark.slow
def test_sweep_frontier_and_both() -> None:
    loose = (
        "--total-variation",
        "0.9",
        "--pattern",
        "permutation",
        "--dtype",
        "float64",
        "--seeds",
        "1",
        "-q",
    )
    sweep = attn("approximate", *loose, "--method", "cyclic", "--sweep", "length=8:32")
    assert "Smallest width found" in sweep.out
    frontier = attn(
        "approximate", *loose, "--length", "16", "--frontier", "3:6", "--format", "json"
    )
    widths = {row["d"] for row in json.loads(frontier.out)["rows"]}
    assert widths == {3, 6}
    both = attn("approximate", *loose, "--method", "cyclic", "--sweep", "length=8:64", "--frontier", "2,2", "--format", "json")  # fmt: skip
    exponents = [row for row in json.loads(both.out)["rows"] if row["metric"] == "scale_exponent"]
    lengths = [8, 16, 32, 64]
    law = np.log([compute_circle_logit_scale(length, 0.2) for length in lengths])
    slope = np.polyfit(np.log(lengths), law, 1)[0]
    assert exponents[0]["value"] == pytest.approx(slope, abs=0.002)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--pattern", "windw"), "did you mean 'window'"),
        (("--method", "convx"), "did you mean 'convex'"),
        (("--dtype", "float16"), "unknown --dtype"),
        (("--total-variation", "0"), "--total-variation must be"),
        (("--width", "0"), "--width must be"),
        (("--width", "4", "--find-width"), "leave it out"),
        (("--sweep", "length=8:16", "--length", "8"), "leave --length out"),
        (("--sweep", "tokens=8:16"), "cannot sweep"),
        (("--frontier", "2:4", "--pattern", "window", "--pattern", "block"), "one --pattern"),
        (
            ("--verify", "fit.safetensors", "--sweep", "length=8:16"),
            "--verify has become a command: attn verify-fit FIT.",
        ),
        (("--effort", "9"), "--effort must be"),
        (("--widest", "0"), "--widest must be"),
        (("--widest", "100000000"), "--widest must be from 1 to 1,000,000"),
        (("--width", "100000000"), "--width must be from 1 to 1,000,000"),
        (
            ("--frontier", "1:100000000"),
            "--frontier 1:100000000: widths must be from 1 to 1,000,000",
        ),
        (("--fail-if", "d_mix > 3"), "did you mean 'd_min'"),
        (("--length", "-3"), "at least 1 token"),
    ],
)
def test_bad_options_end_in_one_sentence(options: tuple[str, ...], says: str) -> None:
    done = attn("approximate", *options)
    assert done.code == 2
    assert says in done.err
    assert done.err.count("\n") == 1
    assert not done.out


def test_bad_files_have_their_own_code(tmp_path: Path) -> None:
    np.save(tmp_path / "bad.npy", np.array([[1.0, -1.0], [0.0, 1.0]]))
    done = attn("approximate", "--pattern", str(tmp_path / "bad.npy"))
    assert done.code == 3
    assert "negative at row 0, column 1" in done.err


@pytest.mark.slow
def test_heads_of_generated_maps_are_patterns(tmp_path: Path) -> None:
    path = tmp_path / "maps.safetensors"
    assert attn("generate", "maps", "--map", "iid", "--heads", "2", "--tokens", "24", "-o", str(path)).code == 0  # fmt: skip
    name = f"{path}:0.1:top=3"
    done = attn("approximate", "--pattern", name, "--seeds", "1", "-q", "--format", "json")
    assert done.code == 0
    rows = {row["metric"]: row["value"] for row in json.loads(done.out)["rows"]}
    assert (rows["length"], rows["k"], rows["meets"]) == (24, 3, 1)


def test_a_dense_pattern_is_said_with_its_cost(tmp_path: Path) -> None:
    weights = np.random.default_rng(0).dirichlet(np.ones(40), size=40)
    np.save(tmp_path / "dense.npy", weights)
    done = attn("approximate", "--pattern", str(tmp_path / "dense.npy"), "--width", "39", "--method", "convex", "--seeds", "1")  # fmt: skip
    assert done.code == 0
    assert "rows of up to k = 40 of 40 keys" in done.err
    assert "need d ≥ 20, all of them d = 39" in done.err
    sparse = attn("approximate", "--pattern", f"{tmp_path / 'dense.npy'}:top=2", "--width", "9")
    assert "dense" not in sparse.err.replace("dense.npy", "")


@pytest.mark.slow
def test_the_tables_hold_the_numbers() -> None:
    done = attn("approximate", "--pattern", "window:3", "--pattern", "permutation", *FAST)
    for header in ("total_variation_mean", "d enough (theorem)", "probes", "finding"):
        assert header in done.out
    assert "seconds" not in done.out


@pytest.mark.slow
def test_maps_are_drawn(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    path = tmp_path / "fit.png"
    done = attn("approximate", "--pattern", "window:3", *FAST, "--plot", str(path))
    assert done.code == 0
    assert path.read_bytes().startswith(b"\x89PNG")
    drawn = attn("approximate", "--pattern", "window:3", *FAST, "--plot")
    assert "window:3 by learned, 32 tokens" in drawn.out
    assert "█" in drawn.out


@pytest.mark.slow
def test_what_is_not_met_fails_and_is_said_first(tmp_path: Path) -> None:
    """The file keeps every pattern's own number: what was not found has no module in it."""
    path = tmp_path / "fit.safetensors"
    one = ("approximate", "--pattern", "window:3", "--pattern", "previous", "--causal", "--length", "24", "--method", "line", "-q")  # fmt: skip
    done = attn(*one, "-o", str(path))
    assert done.code == 1
    assert done.out.startswith("window:3: not found; width 1 is ")
    assert "FAIL  window:3 meets the request" in done.out
    held = load_file(path)
    assert "x.1" in held
    assert "x.0" not in held
    again = attn("verify-fit", str(path), "-q")
    assert again.code == 1
    assert again.out.startswith("1 of 2 patterns")
    assert "the file has no module of it" in again.out
    explored = attn(*one, "--allow-unmet")
    assert explored.code == 0
    assert "FAIL" not in explored.out
