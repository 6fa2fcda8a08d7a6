"""Network files: read back to the last bit, and refused by name when something is wrong with them."""

import json
from pathlib import Path

import numpy as np
import pytest
from helpers import saved
from safetensors.numpy import load_file, save_file

from attncli.analysis.rank_collapse.network_variant_runs import run_network_in_all_variants
from attncli.errors import InputError
from attncli.networks.ablation_variants import VARIANTS
from attncli.networks.network_files import (
    FileNetwork,
    build_network_metadata,
    collect_network_tensors,
)
from attncli.networks.network_spec import NetworkSpec
from attncli.networks.network_weights import GeneratedNetwork

SMALL = NetworkSpec(layers=2, tokens=5, width=4, heads=2)


@pytest.mark.parametrize(
    "kinds",
    [
        {},
        {"biases": True, "attention": "gated"},
        {"positions": "relative", "mask": "window:3", "norm": "layer"},
        {"attention": "sinkhorn", "init_scale": 0.1},
    ],
)
def test_a_network_read_back_gives_the_same_numbers_to_the_last_bit(
    tmp_path: Path, kinds: dict[str, object]
) -> None:
    spec = NetworkSpec(layers=4, tokens=7, width=6, heads=2, **kinds)  # type: ignore[arg-type]
    metrics = ["log10_residual", "stable_rank"]
    made = run_network_in_all_variants(GeneratedNetwork(spec, 9), VARIANTS, metrics, lambda: None)
    read = run_network_in_all_variants(
        saved(tmp_path / "net", spec, 9), VARIANTS, metrics, lambda: None
    )
    assert {name: t.values for name, t in made.items()} == {
        name: t.values for name, t in read.items()
    }


def test_the_file_is_what_other_programs_expect(tmp_path: Path) -> None:
    saved(tmp_path / "net", SMALL)
    read = load_file(tmp_path / "net")
    assert read["x"].shape == (5, 4)
    assert read["layers.1.w_q"].shape == read["layers.1.w_v"].shape == (2, 4, 2)
    assert read["layers.1.w_o"].shape == (2, 2, 4)
    assert read["layers.0.mlp.w_in"].shape == (4, 16)
    assert all(array.dtype == np.float64 for array in read.values())


def rewritten(path: Path, **changes: object) -> Path:
    """A network file with tensors or metadata replaced (None = removed)."""
    network = GeneratedNetwork(SMALL, 0)
    arrays, strings = collect_network_tensors(network), build_network_metadata(network, "paper")
    for name, value in changes.items():
        target = strings if name in strings or isinstance(value, str) else arrays
        target.pop(name, None)
        if value is not None:
            target[name] = value  # type: ignore[assignment]
    save_file(arrays, path, strings)
    return path


BROKEN = {
    "x is missing": {"x": None},
    "layers.1.w_k is missing": {"layers.1.w_k": None},
    r"layers.0.w_v has shape \[2, 4, 3\], expected \[2, 4, 2\]": {"layers.0.w_v": np.ones((2, 4, 3))},
    "layers.0.w_q has 2 axes, not 3": {"layers.0.w_q": np.ones((2, 4))},
    "layers.0.mlp.w_in is I64": {"layers.0.mlp.w_in": np.ones((4, 16), dtype=np.int64)},
    "metadata 'layers' must be a whole number": {"layers": "many"},
    "layers.2.w_q is missing": {"layers": "3"},
    "unknown `norm` 'batch'": {"norm": "batch"},
    "unknown variant 'tree'": {"variant": "tree"},
    "not a network file": {"format": "attn-maps"},
    "layers.0.w_g is missing": {"attention": "gated"},
    "layers.0.relative_bias is missing": {"positions": "relative"},
}  # fmt: skip


@pytest.mark.parametrize("says", BROKEN)
def test_a_wrong_network_file_is_refused_by_name(tmp_path: Path, says: str) -> None:
    path = rewritten(tmp_path / "net", **BROKEN[says])
    with pytest.raises(InputError, match=says):
        _ = FileNetwork(path).ablation_variant


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("name", ["x", "layers.1.w_o", "layers.0.mlp.w_out"])
def test_values_that_are_not_finite_are_named(tmp_path: Path, name: str, value: float) -> None:
    array = collect_network_tensors(GeneratedNetwork(SMALL, 0))[name].copy()
    array.flat[-1] = value
    network = FileNetwork(rewritten(tmp_path / "net", **{name: array}))
    with pytest.raises(InputError, match=f"tensor {name} holds NaN"):
        run_network_in_all_variants(
            network, {"transformer": VARIANTS["transformer"]}, ["log10_residual"], lambda: None
        )


def test_a_truncated_file_is_refused(tmp_path: Path) -> None:
    path = rewritten(tmp_path / "net")
    whole = path.read_bytes()
    for length in (0, 4, 20, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:length])
        with pytest.raises(InputError, match="cannot be read as safetensors"):
            FileNetwork(path)


def test_metadata_names_every_kind(tmp_path: Path) -> None:
    raw = rewritten(tmp_path / "net").read_bytes()
    header = json.loads(raw[8 : 8 + int.from_bytes(raw[:8], "little")])["__metadata__"]
    assert header["attention"] == "softmax"
    assert header["variant"] == "paper"


@pytest.mark.parametrize("dtype", ["complex64", "int64", "float16"])
@pytest.mark.parametrize("name", ["x", "layers.0.w_v", "layers.1.mlp.w_in"])
def test_numbers_of_another_kind_are_refused(dtype: str, name: str, tmp_path: Path) -> None:
    """Never cast: of a complex number half would be gone without a word."""
    network = GeneratedNetwork(NetworkSpec(layers=2, tokens=4, width=4, heads=2), 0)
    held = collect_network_tensors(network)
    held[name] = held[name].astype(dtype)
    save_file(held, tmp_path / "net.safetensors", build_network_metadata(network, "paper"))
    with pytest.raises(InputError, match=rf"tensor {name} is "):
        FileNetwork(tmp_path / "net.safetensors")


@pytest.mark.parametrize("name", ["x", "layers.0.w_v", "layers.1.mlp.w_in"])
def test_a_tensor_whose_numbers_are_too_far_apart_is_refused(name: str, tmp_path: Path) -> None:
    """Products with the small ones would lose their digits beside those with the large ones."""
    network = GeneratedNetwork(NetworkSpec(layers=2, tokens=4, width=4, heads=2), 0)
    held = collect_network_tensors(network)
    for smallest, refused in ((5e-324, True), (1e-250, False), (0.0, False)):
        path = tmp_path / f"{smallest}.safetensors"
        held[name] = held[name].copy()
        held[name][..., 0] = smallest
        save_file(held, path, build_network_metadata(network, "paper"))
        opened = FileNetwork(path)
        if refused:
            with pytest.raises(InputError, match=f"{name} holds numbers from 4.94e-324 to"):
                [opened.read_tensor(each) for each in held]
        else:
            assert np.array_equal(opened.read_tensor(name), held[name])
