"""`attn inspect-model FILE`: the same maps in every kind of file give the same numbers, with words where tokens are given."""

import json
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from commands import attn
from safetensors.torch import save_file

import attncli
from attncli.resource_limits import available_memory

MAPS = torch.softmax(2 * torch.randn(3, 2, 7, 7, generator=torch.Generator().manual_seed(0)), -1)
LAYERS = {f"attentions.{layer}": each.clone() for layer, each in enumerate(MAPS)}
HALF = {name: each[None].bfloat16() for name, each in LAYERS.items()}

SAVE: dict[str, Callable[[Path], Any]] = {
    "whole.npy": lambda path: np.save(path, MAPS.numpy()),
    "whole.npz": lambda path: np.savez_compressed(path, maps=MAPS.numpy()),
    "layers.npz": lambda path: np.savez(path, **{k: v.numpy() for k, v in LAYERS.items()}),
    "positional.npz": lambda path: np.savez(path, *[each.numpy() for each in MAPS]),
    "layers.safetensors": lambda path: save_file(LAYERS, path),
    "whole.pt": lambda path: torch.save(MAPS, path),
    "list.pt": lambda path: torch.save([each[None] for each in MAPS], path),
    "output.pth": lambda path: torch.save({"attentions": tuple(MAPS)}, path),
    "old.bin": lambda path: torch.save(MAPS, path, _use_new_zipfile_serialization=False),
}
ASKED = ("--metric", "entropy,sink,distance", "--pairs", "2")


def rows_of(path: Path, *more: str) -> list[dict[str, Any]]:
    outcome = attn("inspect-maps", str(path), *ASKED, *more, "--format", "json")
    assert outcome.code == 0, outcome.err
    found: list[dict[str, Any]] = json.loads(outcome.out)["rows"]
    return found


@pytest.mark.parametrize("name", SAVE)
def test_every_file_gives_the_numbers_of_the_arrays_themselves(name: str, tmp_path: Path) -> None:
    SAVE[name](tmp_path / name)
    mine = attncli.inspect_maps(MAPS, metrics="entropy,sink,distance", pairs=2)
    assert rows_of(tmp_path / name) == [row.flat() for row in mine.rows]


@pytest.mark.parametrize(
    ("maps", "roles"),
    [
        (MAPS, "6 heads: none has a clear role; entropy_normalised from "),
        (MAPS[:1, :1], "1 head: no clear role; entropy_normalised 0."),
        (torch.full((1, 3, 6, 6), 1 / 6), "3 heads: all uniform."),
        (torch.stack([torch.eye(6), torch.full((6, 6), 1 / 6)])[None], "2 heads: 1 self, 1 uniform."),
    ],
)  # fmt: skip
def test_the_first_line_says_what_the_heads_do(maps: torch.Tensor, roles: str) -> None:
    """By their roles; where none is clear, how uniform they are and how far they look, from the rows."""
    report = attncli.inspect_maps(maps)
    assert f"; {roles}" in report.headline
    if "clear role" in roles:
        for metric in ("entropy_normalised", "distance"):
            values = [row.value for row in report.rows if row.metric == metric]
            assert f"{metric} {'from ' * (len(values) > 1)}{min(values):.2g} " in report.headline
            assert f" {max(values):.2g} in head " in report.headline


def test_half_precision_is_read_and_its_rounding_is_no_learned_sink(tmp_path: Path) -> None:
    save_file(HALF, tmp_path / "half.safetensors")
    torch.save(HALF, tmp_path / "half.pt")
    found = rows_of(tmp_path / "half.safetensors")
    assert found == rows_of(tmp_path / "half.pt")
    exact = attncli.inspect_maps(MAPS, metrics="entropy").rows
    near = [row["value"] for row in found if row["metric"] == "entropy"]
    assert near == pytest.approx([row.value for row in exact], abs=5e-3)
    outcome = attn("inspect-maps", str(tmp_path / "half.pt"))
    assert "learned sink" not in outcome.out + outcome.err


@pytest.mark.parametrize("ending", ["txt", "json"])
def test_labels_come_from_a_file(ending: str, tmp_path: Path) -> None:
    np.save(tmp_path / "m.npy", MAPS.numpy())
    words = ["The", " dog", "", " a", " b", " c", "."]
    labels = tmp_path / f"labels.{ending}"
    labels.write_text(json.dumps(words) if ending == "json" else "\n".join(words) + "\n")
    pairs = [row for row in rows_of(tmp_path / "m.npy", "--labels", str(labels)) if row["metric"] == "token_pair"]  # fmt: skip
    assert len(pairs) == 12
    assert all(row["key_token"] == words[row["key"]] for row in pairs)
    labels.write_text(json.dumps(words[:3]) if ending == "json" else "\n".join(words[:3]) + "\n")
    outcome = attn("inspect-maps", str(tmp_path / "m.npy"), "--labels", str(labels))
    assert (outcome.code, outcome.err) == (2, "attn: --labels names 3 tokens, and the maps have 7 tokens: give each token a name.\n")  # fmt: skip


def test_saved_maps_of_a_run_take_other_labels(tmp_path: Path) -> None:
    path, labels = str(tmp_path / "m.safetensors"), tmp_path / "labels.txt"
    assert attn("generate", "maps", "--map", "sink", "--tokens", "3", "-o", path).code == 0
    labels.write_text("a\nb\nc\n")
    found = rows_of(Path(path), "--labels", str(labels))
    assert {row["key_token"] for row in found if row["metric"] == "token_pair"} <= set("abc")


def test_maps_of_chosen_heads_are_drawn(tmp_path: Path) -> None:
    np.save(tmp_path / "m.npy", MAPS.numpy())
    outcome = attn("inspect-maps", str(tmp_path / "m.npy"), "--heads", "2.1", "--plot")
    assert "head 2.1" in outcome.out
    assert "head 2.0" not in outcome.out


class Evil:
    def __reduce__(self) -> Any:
        return (print, ("this ran",))


def test_a_pickle_runs_no_code(tmp_path: Path) -> None:
    torch.save([MAPS, Evil()], tmp_path / "evil.pt")
    (tmp_path / "plain.bin").write_bytes(pickle.dumps(Evil()))
    for name in ("evil.pt", "plain.bin"):
        outcome = attn("inspect-maps", str(tmp_path / name))
        assert outcome.code == 3
        assert "this ran" not in outcome.out + outcome.err
        assert "plain tensors" in outcome.err


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (torch.zeros(1).expand(9, 10**6, 10**6), "is not stored in full"),
        (torch.eye(3).to_sparse(), "is not stored in full"),
        ([MAPS, "word"], "1 is no tensor"),
        ({"weight": torch.ones(3, 3), "bias": torch.ones(3, 3)}, "which are attention maps cannot be told"),
        (torch.ones(4), "no array of two axes"),
    ],
)  # fmt: skip
def test_what_a_file_of_torch_may_hold_besides_is_refused(
    value: Any, said: str, tmp_path: Path
) -> None:
    torch.save(value, tmp_path / "x.pt")
    outcome = attn("inspect-maps", str(tmp_path / "x.pt"))
    assert outcome.code == 3
    assert said in outcome.err
    assert outcome.err.count("\n") == 1


def test_rows_that_miss_something_are_told(tmp_path: Path) -> None:
    short = MAPS.clone()
    short[1, 0, 6] = 0.0
    np.save(tmp_path / "m.npy", short.numpy())
    outcome = attn("inspect-maps", str(tmp_path / "m.npy"), "--metric", "sink")
    assert "rows of 1 of 3 layers sum to less than 1, the least to 0" in outcome.err


@pytest.mark.parametrize("option", [("--labels", "x.txt"), ("--batch", "0")])
def test_what_goes_with_maps_alone_is_refused_for_a_model(option: tuple[str, str]) -> None:
    outcome = attn("inspect-model", "random:bert", *option)
    assert outcome.code == 2
    assert f"{option[0]} has become a command: attn inspect-maps FILE." in outcome.err


def test_the_machine_says_what_it_can_hold() -> None:
    """Else the bounds above would hold nowhere."""
    assert available_memory() is not None


def test_what_is_told_of_states_alone_is_refused(tmp_path: Path) -> None:
    """Maps do not show it: there would be a report without a number."""
    np.save(tmp_path / "maps.npy", np.tril(np.ones((2, 3, 3))) / np.arange(1, 4)[:, None])
    outcome = attn("inspect-maps", str(tmp_path / "maps.npy"), "--metric", "max_activation")
    assert (outcome.code, outcome.out) == (2, "")
    said = "and --metric names what is measured on states, max_activation: ask the model itself."
    assert said in outcome.err
    beside = attn("inspect-maps", str(tmp_path / "maps.npy"), "--metric", "sink,max_activation")
    assert beside.code == 0
