"""`attn paths` at the terminal: what it prints, and what it refuses."""

import json
from pathlib import Path

import pytest
from commands import attn

SMALL = ("--layers", "3", "--heads", "2", "--tokens", "8", "--width", "8", "--seeds", "1")


def test_completeness_is_always_printed() -> None:
    outcome = attn("paths", *SMALL)
    assert outcome.code == 0
    assert "completeness_error" in outcome.out
    assert outcome.out.startswith("Paths of length ≤ ")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--path", "1,2"), "3 numbers from 0 to 2"),
        (("--path", "1,2,3"), "3 numbers from 0 to 2"),
        (("--path", "1,x,0"), "not numbers"),
        (("--path", "1,0,1", "--no-skip"), "numbers from 1 to 2"),
        (("--sample", "0"), "from 1 to 100,000"),
        (("--by", "layer"), "there are: head, steps"),
        (("--by", "steps"), "name a model"),
        (("--by", "head", "--sample", "3"), "different questions"),
        (("--sample", "3", "--metric", "stable_rank"), "leave it out"),
        (("--metric", "stable_rnk"), "did you mean 'stable_rank'?"),
        (("--count",), "--count has become a command: attn count-paths."),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_usage_errors_say_what_is_valid(arguments: tuple[str, ...], said: str) -> None:
    outcome = attn("paths", *SMALL, *arguments)
    assert outcome.code == 2
    assert said in outcome.err
    assert outcome.out == ""


def test_counts_need_no_network() -> None:
    outcome = attn("count-paths", "--layers", "96", "--heads", "96", "--format", "json")
    rows = json.loads(outcome.out)["rows"]
    share = next(
        r["value"] for r in rows if r["metric"] == "path_count_share" and r["length"] == 95
    )
    assert share == pytest.approx(0.370, abs=5e-4)


def test_a_hub_models_config_is_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From the cache, without its weights."""
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    commit = "c0ffee" * 6 + "abcd"
    home = tmp_path / "models--org--name"
    snapshot = home / "snapshots" / commit
    snapshot.mkdir(parents=True)
    (home / "refs").mkdir()
    (home / "refs" / "main").write_text(commit)
    sizes = {
        "model_type": "bert",
        "hidden_size": 8,
        "num_hidden_layers": 3,
        "num_attention_heads": 2,
    }
    (snapshot / "config.json").write_text(json.dumps(sizes))
    outcome = attn("count-paths", "org/name", "--offline", "--format", "json")
    assert outcome.code == 0, outcome.err
    report = json.loads(outcome.out)
    counts = [row["value"] for row in report["rows"] if row["metric"] == "path_count"]
    assert counts == [1, 6, 12, 8]
    assert report["source"]["commit"] == commit
    missing = attn("count-paths", "org/other", "--offline")
    assert (missing.code, "not in the cache" in missing.err) == (3, True)


def test_a_network_file_and_a_gate(tmp_path: Path) -> None:
    file = str(tmp_path / "net.safetensors")
    assert attn("generate", "network", *SMALL[:-2], "-o", file).code == 0
    assert attn("paths", file, "--fail-if", "completeness_error > 1e-12").code == 0
    assert attn("paths", file, "--fail-if", "path_norm_share_up_to[length=3] < 2").code == 1
    assert attn("paths", file, "--layers", "4").code == 2


@pytest.mark.parametrize("question", [(), ("--by", "head"), ("--sample", "1")], ids=" ".join)
def test_what_cannot_fit_is_refused_before_it_runs(question: tuple[str, ...]) -> None:
    outcome = attn("paths", "--tokens", "100000000", "--layers", "100", *question)
    assert (outcome.code, outcome.out) == (4, "")
    assert "lower --tokens" in outcome.err
