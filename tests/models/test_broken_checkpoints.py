"""Corrupted copies of a small checkpoint: the very same weights, or one sentence; never anything else.

What counts as the same weights is said by the safetensors library, which reads the spoilt file once more.
"""

import contextlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file
from small_checkpoints import change_config, saved

import attncli as attn
from attncli.errors import AttnError, InputError, LimitError
from attncli.models.loading.load_model import load_model
from attncli.models.loading.load_options import LoadOptions

WEIGHTS, CONFIG, INDEX = "model.safetensors", "config.json", "model.safetensors.index.json"


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The checkpoint that everything here is a copy of."""
    folder = tmp_path_factory.mktemp("whole")
    saved("BertForMaskedLM", folder)
    return folder


def test_two_tensors_for_one_weight_are_refused(whole: Path, tmp_path: Path) -> None:
    """transformers puts both into it, one after the other, and says nothing."""
    shutil.copytree(whole, tmp_path, dirs_exist_ok=True)
    held = load_file(tmp_path / WEIGHTS)
    name = "bert.encoder.layer.0.attention.self.query.weight"
    other = name.removeprefix("bert.")
    save_file(held | {other: torch.zeros_like(held[name])}, tmp_path / WEIGHTS)
    with pytest.raises(InputError, match=r"holds both .*, which are one weight of BertForMaskedLM"):
        load_model(str(tmp_path))
    for prefix in ("ema", "model"):  # a copy that is kept beside the model
        save_file(held | {f"{prefix}.{name}": torch.zeros_like(held[name])}, tmp_path / WEIGHTS)
        loaded = load_model(str(tmp_path)).model.get_parameter(name)
        assert torch.equal(loaded, held[name])


@pytest.mark.parametrize("mark", [b"\xef\xbb\xbf", b" "])
def test_headers_begin_as_safetensors_do(whole: Path, tmp_path: Path, mark: bytes) -> None:
    """With a mark of the byte order before them every reader says the same."""
    shutil.copytree(whole, tmp_path, dirs_exist_ok=True)
    raw = (tmp_path / WEIGHTS).read_bytes()
    size = int.from_bytes(raw[:8], "little") + len(mark)
    (tmp_path / WEIGHTS).write_bytes(size.to_bytes(8, "little") + mark + raw[8:])
    for asked in (attn.inspect_model, attn.rank_collapse):
        with pytest.raises(InputError, match="its header does not begin with"):
            asked(str(tmp_path))
    with pytest.raises(InputError, match="its header does not begin with"):
        attn.inspect_weights(str(tmp_path))


@pytest.mark.parametrize("made", [lambda t: t.to_sparse(), lambda t: t.to("meta"), lambda t: t[:1].expand(10**6, -1)])  # fmt: skip
def test_pickled_tensors_whose_numbers_are_not_there_are_refused(
    whole: Path, tmp_path: Path, made: Callable[[torch.Tensor], torch.Tensor]
) -> None:
    shutil.copy(whole / CONFIG, tmp_path)
    held = load_file(whole / WEIGHTS)
    name = "bert.encoder.layer.0.attention.self.query.weight"
    torch.save(held | {name: made(held[name])}, tmp_path / "pytorch_model.bin")
    with pytest.raises(InputError, match="is not stored in full"):
        load_model(str(tmp_path), LoadOptions(allow_pickle=True))


@pytest.fixture(scope="module")
def sharded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sharded")
    saved("BertForMaskedLM", folder, options={"max_shard_size": "6KB"})
    return folder


@pytest.fixture(scope="module")
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("scratch")


def copied(folder: Path, to: Path) -> Path:
    shutil.rmtree(to, ignore_errors=True)
    shutil.copytree(folder, to)
    return to


def refusal(folder: Path) -> str:
    with pytest.raises(AttnError) as refused:
        load_model(str(folder))
    sentence = str(refused.value)
    assert isinstance(refused.value, InputError | LimitError)
    assert "\n" not in sentence
    assert sentence.endswith(".")
    return sentence


def outcome(folder: Path) -> bool:
    """Whether it loads; if so, its body holds what the files hold."""
    try:
        checkpoint = load_model(str(folder))
    except InputError as error:
        sentence = str(error)
    else:
        compare(checkpoint.model_without_head, load_file(folder / WEIGHTS))
        return True
    assert "\n" not in sentence
    return False


def compare(body: torch.nn.Module, held: dict[str, torch.Tensor]) -> None:
    for name, tensor in body.state_dict().items():
        if "pooler" in name:  # a head that the file has never had
            continue
        expected = held[f"bert.{name}" if f"bert.{name}" in held else name]
        assert torch.equal(tensor.double(), expected.double()), name


ANY = settings(
    max_examples=80,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


@pytest.mark.slow
@ANY
@given(data=st.data())
def test_cut_off_files_are_refused(whole: Path, scratch: Path, data: st.DataObject) -> None:
    folder = copied(whole, scratch / "cut")
    content = (whole / WEIGHTS).read_bytes()
    length = data.draw(st.integers(0, len(content) - 1))
    (folder / WEIGHTS).write_bytes(content[:length])
    assert WEIGHTS in refusal(folder)


@pytest.mark.slow
@settings(ANY, max_examples=75)
@given(data=st.data())
def test_flipped_bytes_of_the_header(whole: Path, scratch: Path, data: st.DataObject) -> None:
    folder = copied(whole, scratch / "flipped")
    content = bytearray((whole / WEIGHTS).read_bytes())
    end = 8 + int.from_bytes(content[:8], "little")
    for _ in range(data.draw(st.integers(1, 3))):
        content[data.draw(st.integers(0, end - 1))] = data.draw(
            st.one_of(st.integers(0, 255), st.sampled_from(b'0123456789"{}[]:,. FIUB'))
        )
    (folder / WEIGHTS).write_bytes(content)
    outcome(folder)


def drop(held: dict[str, Any], name: str, data: st.DataObject) -> None:
    del held[name]


def rename(held: dict[str, Any], name: str, data: st.DataObject) -> None:
    words = st.sampled_from([*held, "bert", "bert.encoder.layer.2.x", "x." + name, name + ".x"])
    held[data.draw(words)] = held.pop(name)


def reshape(held: dict[str, Any], name: str, data: st.DataObject) -> None:
    shapes = [(-1,), (1, -1), (-1, 1), (-1, 2)]
    held[name] = held[name].reshape(data.draw(st.sampled_from(shapes))).contiguous()


def cut(held: dict[str, Any], name: str, data: st.DataObject) -> None:
    held[name] = held[name][: data.draw(st.integers(0, len(held[name]) - 1))].contiguous()


def retype(held: dict[str, Any], name: str, data: st.DataObject) -> None:
    types = [torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.uint8]
    types += [torch.bool, torch.complex64, torch.float8_e4m3fn]
    held[name] = held[name].to(data.draw(st.sampled_from(types)))


def reread(held: dict[str, Any], name: str, data: st.DataObject) -> None:
    """The same bytes under another type's name, as a spoilt header has it."""
    held[name] = held[name].view(data.draw(st.sampled_from([torch.int32, torch.uint32])))


def spoil(held: dict[str, Any], name: str, data: st.DataObject) -> None:
    value = data.draw(st.sampled_from([float("nan"), float("inf"), -float("inf")]))
    held[name].view(-1)[data.draw(st.integers(0, held[name].numel() - 1))] = value


def swap_axes(held: dict[str, Any], name: str, data: st.DataObject) -> None:
    held[name] = held[name].T.contiguous() if held[name].ndim == 2 else held[name]


LOSSES: list[Callable[..., None]] = [
    drop,
    rename,
    reshape,
    cut,
    retype,
    reread,
    spoil,
    swap_axes,
]


@pytest.mark.slow
@settings(ANY, max_examples=50)
@given(data=st.data())
def test_changed_tensors(whole: Path, scratch: Path, data: st.DataObject) -> None:
    folder = copied(whole, scratch / "changed")
    held = load_file(whole / WEIGHTS)
    for _ in range(data.draw(st.integers(1, 2))):
        name = data.draw(st.sampled_from(sorted(held)))
        with contextlib.suppress(RuntimeError, NotImplementedError, IndexError, TypeError):
            # what one change has left may have no shape or type for the next
            data.draw(st.sampled_from(LOSSES))(held, name, data)
    save_file(held, folder / WEIGHTS)
    outcome(folder)


SIZES = [
    "hidden_size",
    "num_hidden_layers",
    "num_attention_heads",
    "intermediate_size",
    "vocab_size",
    "max_position_embeddings",
    "type_vocab_size",
    "layer_norm_eps",
    "hidden_act",
    "pad_token_id",
    "chunk_size_feed_forward",
    "dtype",
    "architectures",
    "tie_word_embeddings",
    "id2label",
    "num_labels",
    "is_decoder",
    "attn_implementation",
    "transformers_weights",
]
VALUES = st.one_of(
    st.integers(-3, 40),
    st.sampled_from([10**6, 10**9, 10**15, -(10**9), 2**63, 0.5, -1.0, 1e300]),
    st.sampled_from(
        ["", "16", "float16", "relu", "BertModel", "../../etc/passwd", [], {}, [1], True]
    ),
)


@pytest.mark.slow
@settings(ANY, max_examples=50)
@given(name=st.sampled_from(SIZES), value=VALUES)
def test_changed_configs(whole: Path, scratch: Path, name: str, value: Any) -> None:
    folder = copied(whole, scratch / "config")
    change_config(folder, **{name: value})
    outcome(folder)


@pytest.mark.slow
@ANY
@given(data=st.data())
def test_flipped_bytes_of_the_config(whole: Path, scratch: Path, data: st.DataObject) -> None:
    folder = copied(whole, scratch / "bytes")
    content = bytearray((whole / CONFIG).read_bytes())
    content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    (folder / CONFIG).write_bytes(content)
    outcome(folder)


def test_the_properties_can_fail(whole: Path, scratch: Path) -> None:
    """The untouched copy loads, and other weights are seen."""
    folder = copied(whole, scratch / "same")
    assert outcome(folder)
    held = load_file(whole / WEIGHTS)
    checkpoint = load_model(str(folder))
    held["bert.embeddings.LayerNorm.bias"][0] += 1
    save_file(held, folder / WEIGHTS)
    with pytest.raises(AssertionError, match=r"LayerNorm\.bias"):
        compare(checkpoint.model_without_head, held)


BROKEN: dict[str, tuple[Callable[[Path], object], str]] = {
    "zero bytes": (lambda f: (f / WEIGHTS).write_bytes(b""), "cut off or something else"),
    "a pickle": (lambda f: torch.save({"a": torch.ones(2)}, f / WEIGHTS), "something else"),
    "deep brackets": (
        lambda f: (f / WEIGHTS).write_bytes((50_000).to_bytes(8, "little") + b"[" * 50_000),
        "cannot be read as safetensors",
    ),
    "more behind": (
        lambda f: (f / WEIGHTS).write_bytes((f / WEIGHTS).read_bytes() + b"\0"),
        "more than its header says",
    ),
    "a folder for a file": (
        lambda f: ((f / WEIGHTS).unlink(), (f / WEIGHTS).mkdir()),
        "has neither",
    ),
    "no weights": (lambda f: (f / WEIGHTS).unlink(), "has neither"),
    "gguf": (lambda f: (f / WEIGHTS).rename(f / "model.gguf"), "GGUF"),
    "no config": (lambda f: (f / CONFIG).unlink(), "no config.json"),
    "empty": (lambda f: (shutil.rmtree(f), f.mkdir()), "no config.json"),
    "gone": (lambda f: shutil.rmtree(f), "there is no folder"),
    "a file": (lambda f: (shutil.rmtree(f), f.write_text("")), "is a file"),
    "config of brackets": (lambda f: (f / CONFIG).write_text("[" * 50_000), "as JSON"),
    "config of a list": (lambda f: (f / CONFIG).write_text("[]"), "no JSON object"),
    "config of bytes": (lambda f: (f / CONFIG).write_bytes(b"\xff\xfe"), "as JSON"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_broken_folders(case: str, whole: Path, tmp_path: Path) -> None:
    folder = copied(whole, tmp_path / "broken")
    spoil_it, says = BROKEN[case]
    spoil_it(folder)
    assert says in refusal(folder)


def raw(folder: Path, entries: dict[str, Any], size: int) -> None:
    """A safetensors file with any header."""
    header = json.dumps(entries).encode()
    content = len(header).to_bytes(8, "little") + header + bytes(size)
    (folder / WEIGHTS).write_bytes(content)


LIES: dict[str, tuple[dict[str, Any], int, str]] = {
    "overlap": (
        {
            "a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]},
            "b": {"dtype": "F32", "shape": [2], "data_offsets": [4, 12]},
        },
        12,
        "overlap",
    ),
    "overflow": (
        {"a": {"dtype": "F32", "shape": [2**32, 2**32], "data_offsets": [0, 0]}},
        0,
        "beyond any memory",
    ),
    "negative": (
        {"a": {"dtype": "F32", "shape": [-2, -2], "data_offsets": [0, 16]}},
        16,
        "no size",
    ),
    "backwards": ({"a": {"dtype": "F32", "shape": [1], "data_offsets": [8, 4]}}, 8, "outside"),
    "fraction": ({"a": {"dtype": "F32", "shape": [1.0], "data_offsets": [0, 4]}}, 4, "no size"),
    "no entry": ({"a": 3}, 0, "cannot be read"),
    "half an entry": ({"a": {"dtype": "F32", "shape": [1]}}, 4, "not described in full"),
}


@pytest.mark.parametrize("case", LIES)
def test_headers_that_lie(case: str, whole: Path, tmp_path: Path) -> None:
    folder = copied(whole, tmp_path / "lies")
    entries, size, says = LIES[case]
    raw(folder, entries, size)
    assert says in refusal(folder)


def test_a_name_that_stands_twice(whole: Path, tmp_path: Path) -> None:
    folder = copied(whole, tmp_path / "repeated")
    entry = '{"dtype":"F32","shape":[1],"data_offsets":[0,4]}'
    header = f'{{"a":{entry},"a":{entry}}}'.encode()
    (folder / WEIGHTS).write_bytes(len(header).to_bytes(8, "little") + header + bytes(4))
    assert "twice" in refusal(folder)


def index_of(folder: Path) -> dict[str, Any]:
    return dict(json.loads((folder / INDEX).read_text()))


def with_map(folder: Path, change: Callable[[dict[str, Any]], object]) -> None:
    index = index_of(folder)
    change(index["weight_map"])
    (folder / INDEX).write_text(json.dumps(index))


NAME = "bert.encoder.layer.0.attention.self.query.weight"


def shards(folder: Path) -> list[Path]:
    return sorted(folder.glob("model-*.safetensors"))


SHARDS: dict[str, tuple[Callable[[Path], object], str]] = {
    "a shard is missing": (lambda f: shards(f)[1].unlink(), "lacks model-00002"),
    "the index puts a tensor elsewhere": (
        lambda f: with_map(f, lambda m: m.update({NAME: max(m.values())})),
        "of another model",
    ),
    "the index does not know a tensor": (
        lambda f: with_map(f, lambda m: m.pop(NAME)),
        f"does not name {NAME}",
    ),
    "the index knows too much": (
        lambda f: with_map(f, lambda m: m.update({"more": max(m.values())})),
        "no shard holds it",
    ),
    "a shard outside the folder": (
        lambda f: with_map(f, lambda m: m.update({NAME: "../x.safetensors"})),
        "no file in its folder",
    ),
    "a shard that is a number": (lambda f: with_map(f, lambda m: m.update({NAME: 3})), "no file"),
    "no map": (lambda f: (f / INDEX).write_text("{}"), "no weight_map"),
    "a list for a map": (lambda f: (f / INDEX).write_text('{"weight_map": []}'), "no weight_map"),
    "an empty map": (lambda f: (f / INDEX).write_text('{"weight_map": {}}'), "all shards"),
    "two shards with the same tensors": (
        lambda f: shutil.copy(shards(f)[0], shards(f)[1]),
        "both hold",
    ),
    "a shard that is cut off": (
        lambda f: shards(f)[2].write_bytes(shards(f)[2].read_bytes()[:-1]),
        "outside the file",
    ),
}


@pytest.mark.parametrize("case", SHARDS)
def test_broken_shards(case: str, sharded: Path, tmp_path: Path) -> None:
    folder = copied(sharded, tmp_path / "shards")
    spoil_it, says = SHARDS[case]
    spoil_it(folder)
    assert says in refusal(folder)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize(("value", "kind"), [(np.nan, "NaN"), (np.inf, "Inf"), (-np.inf, "Inf")])
def test_numbers_that_are_none_are_named_with_their_tensor(
    dtype: torch.dtype, value: float, kind: str, whole: Path, tmp_path: Path
) -> None:
    folder = copied(whole, tmp_path / "nan")
    held = {name: tensor.to(dtype) for name, tensor in load_file(whole / WEIGHTS).items()}
    held[NAME][3, 5] = value
    save_file(held, folder / WEIGHTS)
    assert f"tensor {NAME} holds {kind} at [3, 5]" in refusal(folder)


def test_the_largest_numbers_are_numbers(whole: Path, tmp_path: Path) -> None:
    """The check looks at exponents: the largest, the smallest and negative zero are fine."""
    folder = copied(whole, tmp_path / "large")
    for dtype in (torch.float64, torch.float32, torch.bfloat16):
        held = {name: tensor.to(dtype) for name, tensor in load_file(whole / WEIGHTS).items()}
        limits = torch.finfo(dtype)
        for place, number in enumerate((limits.max, limits.min, limits.tiny, -0.0)):
            held[NAME][0, place] = number
        save_file(held, folder / WEIGHTS)
        assert outcome(folder)


def test_a_number_behind_the_first_chunk_is_found(
    whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("attncli.models.files.weight_files.CHUNK", 64)
    folder = copied(whole, tmp_path / "chunks")
    before = load_model(str(whole)).identity["weight_sha256"]
    monkeypatch.undo()
    assert load_model(str(whole)).identity["weight_sha256"] == before
    monkeypatch.setattr("attncli.models.files.weight_files.CHUNK", 64)
    held = load_file(whole / WEIGHTS)
    held[NAME][15, 14] = float("nan")
    save_file(held, folder / WEIGHTS)
    assert "at [15, 14]" in refusal(folder)


def test_pickles_are_checked_like_files(whole: Path, tmp_path: Path) -> None:
    folder = copied(whole, tmp_path / "pickle")
    held = load_file(whole / WEIGHTS)
    (folder / WEIGHTS).unlink()
    path = folder / "pytorch_model.bin"
    options = LoadOptions(allow_pickle=True)
    held[NAME][3, 5] = float("nan")
    torch.save(held, path)
    with pytest.raises(InputError, match=r"NaN at \[3, 5\]"):
        load_model(str(folder), options)
    content = path.read_bytes()
    for length in (0, 10, len(content) // 2, len(content) - 1):
        path.write_bytes(content[:length])
        with pytest.raises(InputError, match="cannot be read as pickled tensors"):
            load_model(str(folder), options)
