"""Whatever is thrown at the command line: no traceback, one line on stderr, one of the documented exit codes."""

import struct
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from commands import Outcome, attn
from hypothesis import example, given, settings
from hypothesis import strategies as st
from safetensors.numpy import save

from attncli.networks.network_files import build_network_metadata, collect_network_tensors
from attncli.networks.network_spec import NetworkSpec
from attncli.networks.network_weights import GeneratedNetwork

SIZES = ("--layers", "--tokens", "--width", "--heads", "--key-width", "--mlp-width", "--seeds")
"""Options whose wild values are chosen by hand: a large size is no error, only slow."""

NUMBERS = ("1", "2", "3", "0", "-1", "", "x", "1.5", "nan", "1e3", "١", "0x4", "--width", "9" * 30)
WORDS: Mapping[str, tuple[str, ...]] = {
    "--seed": NUMBERS,
    "--init-scale": ("0", "-1", "nan", "inf", "1e-300", "1e-8", "1e3", "1e300", "1e999", "x", "1_0"),
    "--norm": ("layer", "rms", "none", "laer", "layer:3", ""),
    "--norm-position": ("pre", "post", "mid"),
    "--mask": ("causal", "window:2", "window:0", "window", "window:x", "causal:3", "window:" + "9" * 30),
    "--positions": ("rope", "relative", "alibi"),
    "--attention": ("gated", "sinkhorn", "sinkhorn:1", "sinkhorn:0", "linear"),
    "--activation": ("gelu", "silu", "tanh"),
    "--metric": ("stable_rank", "effective_rank,log10_residual", ",", "stable-rank", "__init__"),
    "--variants": ("SAN", "pure", "all", "SAN,SAN", "san", "", "SAN-outlier"),
    "--sweep": ("tokens=1:4", "heads=1,2", "init-scale=0.1:1:2", "width=0:2", "tokens", "=", "x=1:2", "tokens=2:1"),
    "--fail-if": ("order > 1", "log10_residual[layer=-1]<0", "max(order[SAN])>=3", "order", "order[layer=x] < 1",
                  "order[head=0] < 1", "a\nb < 3", "order[length=\n] < 1", "[] < 1", "order < 1e999"),
    "--format": ("json", "csv", "table", "jsn", "_cells", "__init__", "plots"),
    "--output": (".", "no/such/x", "out.json", "out.csv", "out.md", ""),
    "--plot": ("terminal", "no/such/x.png", "x.gif", ""),
    "--map": ("uniform", "iid:2", "iid:sigma=nan", "window:0", "sink:2", "x:y:z", "block:size=", "permutation:true"),
}  # fmt: skip
FLAGS = (
    "--skip", "--no-skip", "--mlp", "--no-mlp", "--mlp-skip", "--no-mlp-skip", "--biases", "--no-biases",
    "--remove-outlier", "--plot", "--quiet", "--no-progress", "--help", "-h", "-q", "-o", "--", "-", "-x", "--laers",
    "--version", "\n", "--\n=",
)  # fmt: skip
COMMANDS = (
    ("rank-collapse", "--layers", "1", "--tokens", "3", "--width", "4", "--heads", "2", "--seeds", "1"),
    ("generate", "network", "--layers", "1", "--tokens", "3", "--width", "4", "--heads", "2", "-o", "n.safetensors"),
    ("generate", "maps", "--tokens", "3", "-o", "m.safetensors", "--map", "uniform"),
    ("list",),
    ("generate",),
    (),
)  # fmt: skip

short = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0/"), max_size=6)
options = st.one_of(
    st.tuples(st.sampled_from(SIZES), st.sampled_from(NUMBERS)),
    st.sampled_from(sorted(WORDS)).flatmap(
        lambda name: st.tuples(st.just(name), st.sampled_from(WORDS[name]))
    ),
    st.sampled_from(
        [name for name in sorted(WORDS) if name not in ("--seed", "--output", "--plot")]
    ).flatmap(lambda name: st.tuples(st.just(name), short)),
    st.tuples(st.sampled_from(FLAGS)),
    st.tuples(short),
)
lines = st.tuples(st.sampled_from(COMMANDS), st.lists(options, max_size=4)).map(
    lambda line: [*line[0], *(part for option in line[1] for part in option)]
)


def within(folder: str, arguments: list[str]) -> Outcome:
    """Run in a folder of its own: some of these lines write files."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        return attn(*arguments)


def is_civil(outcome: Outcome) -> None:
    """One sentence, and a code that means something."""
    assert outcome.code in (0, 1, 2, 3, 4), outcome.err
    assert "Traceback" not in outcome.err
    if outcome.code >= 2:
        assert outcome.err.startswith("attn: ")
        assert outcome.err.endswith("\n")
        assert len(outcome.err.splitlines()) == 1, outcome.err
        assert outcome.out == ""


@pytest.mark.slow
@settings(max_examples=150)
@given(arguments=lines)
@example(["rank-collapse", "--fail-if", "a\nb"])
@example(["rank-collapse", "--metric", "a\nb"])
@example(["rank-collapse", "--\n"])
@example(["rank-collapse", "a\nb"])
@example(["generate", "maps", "--map", "a\nb", "-o", "m.safetensors"])
@example(["list", "a\nb"])
@example(["a\nb"])
def test_no_command_line_is_met_with_a_traceback(arguments: list[str]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        is_civil(within(folder, arguments))
        left = {path.name for path in Path(folder).iterdir()}
    assert not any(name.startswith(".") for name in left - set(arguments)), left


SPEC = NetworkSpec(layers=2, tokens=3, width=4, heads=2, biases=True, positions="relative")
WEIGHTS = collect_network_tensors(GeneratedNetwork(SPEC, 0))
METADATA = build_network_metadata(GeneratedNetwork(SPEC, 0), "paper")
WHOLE = save(WEIGHTS, METADATA)
HEADER = struct.unpack("<Q", WHOLE[:8])[0] + 8

Damage = Callable[[Any], bytes]
names = st.sampled_from(sorted(WEIGHTS))
cells = st.sampled_from(
    ["", "x", "-1", "0", "1", "3", "9" * 30, "nan", "²", "١", "window:2", "a\nb"]
)


def flipped(place: int, bit: int) -> bytes:
    return WHOLE[:place] + bytes([WHOLE[place] ^ 1 << bit]) + WHOLE[place + 1 :]


def with_tensor(name: str, array: np.ndarray[Any, Any] | None) -> bytes:
    changed = {other: kept for other, kept in WEIGHTS.items() if other != name}
    return save(changed if array is None else {**changed, name: array}, METADATA)


def holding(name: str, value: float) -> bytes:
    array = WEIGHTS[name].copy()
    array.flat[0] = value
    return with_tensor(name, array)


damaged = st.one_of(
    st.integers(0, len(WHOLE) - 1).map(lambda length: WHOLE[:length]),
    st.builds(flipped, st.integers(0, HEADER - 1), st.integers(0, 7)),
    st.builds(flipped, st.integers(0, len(WHOLE) - 1), st.integers(0, 7)),
    st.binary(max_size=40),
    st.binary(max_size=40).map(lambda tail: WHOLE + tail),
    names.map(lambda name: with_tensor(name, None)),
    st.builds(holding, names, st.sampled_from([np.nan, np.inf, -np.inf, 1e300, 5e-324])),
    st.builds(
        lambda name, shape: with_tensor(name, np.zeros(shape)),
        names,
        st.lists(st.integers(0, 4), max_size=4),
    ),
    st.builds(
        lambda name, kind: with_tensor(name, WEIGHTS[name].astype(kind)),
        names,
        st.sampled_from(["float32", "float16", "int64", "bool", "uint8"]),
    ),
    st.builds(
        lambda key, value: save(WEIGHTS, {**METADATA, key: value}),
        st.sampled_from(sorted(METADATA)),
        cells,
    ),
    st.sampled_from(sorted(METADATA)).map(
        lambda key: save(WEIGHTS, {name: text for name, text in METADATA.items() if name != key})
    ),
    st.just(save(WEIGHTS)),
)


@pytest.mark.slow
@settings(max_examples=150)
@given(content=damaged)
@example(b"")
@example(holding("x", np.nan))
@example(holding("layers.1.w_q", np.inf))
@example(holding("layers.0.w_v", 1e300))
@example(save(WEIGHTS, {**METADATA, "mask": "a\nb"}))
@example(save(WEIGHTS, {**METADATA, "init_scale": "1e-400"}))
def test_no_file_is_met_with_a_traceback(content: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "net.safetensors").write_bytes(content)
        is_civil(within(folder, ["rank-collapse", "net.safetensors"]))


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "cannot be read as safetensors"),
        (b"no such thing as a network", "cannot be read as safetensors"),
        (WHOLE[:-8], "cannot be read as safetensors"),
        (
            save({"x": np.zeros(3)}),
            "is a safetensors file without maps, a network or a fit: attn rank-collapse takes",
        ),
        (with_tensor("layers.1.w_o", None), "tensor layers.1.w_o is missing"),
        (with_tensor("layers.0.relative_bias", None), "tensor layers.0.relative_bias is missing"),
        (
            with_tensor("layers.1.w_o", np.zeros((2, 2, 3))),
            "has shape [2, 2, 3], expected [2, 2, 4]",
        ),
        (with_tensor("x", np.zeros(3)), "tensor x has 1 axis, not 2"),
        (with_tensor("x", np.zeros((0, 4))), "tokens must be from 1 to"),
        (with_tensor("layers.0.b_q", np.zeros((2, 2), "int64")), "is I64, not F64 or F32"),
        (holding("x", np.nan), "tensor x holds NaN or infinite values"),
        (holding("layers.1.mlp.w_in", np.inf), "layers.1.mlp.w_in holds NaN or infinite values"),
        (save(WEIGHTS, {**METADATA, "layers": "3"}), "tensor layers.2.w_q is missing"),
        (save(WEIGHTS, {**METADATA, "layers": "-3"}), "'layers' must be a whole number, not '-3'"),
        (save(WEIGHTS, {**METADATA, "norm": "laer"}), "unknown --norm 'laer'"),
        (save(WEIGHTS, {**METADATA, "variant": "SAM"}), "unknown variant 'SAM'"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_file_is_refused_by_what_is_wrong_with_it(
    content: bytes, said: str, tmp_path: Path
) -> None:
    path = tmp_path / "net.safetensors"
    path.write_bytes(content)
    outcome = attn("rank-collapse", str(path))
    assert (outcome.code, outcome.out) == (3, "")
    assert str(path) in outcome.err
    assert said in outcome.err
    assert outcome.err.count("\n") == 1


def test_the_file_that_is_damaged_here_is_whole(tmp_path: Path) -> None:
    (tmp_path / "net.safetensors").write_bytes(WHOLE)
    assert attn("rank-collapse", str(tmp_path / "net.safetensors")).code == 0
