"""Inputs that once crashed, hung or filled the memory: one sentence, and its exit code."""

import contextlib
import json
import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from commands import attn, attn_program
from small_checkpoints import change_config, saved

from attncli.capture.saved_maps.map_files import MapFile
from attncli.cli.config.settings import load_config_file
from attncli.errors import (
    InputError,
    LimitError,
    UsageError,
    list_first_names,
    make_unknown_name_error,
)
from attncli.gates import parse_condition
from attncli.gates.baseline_changes import parse_allowed_change
from attncli.gates.row_selection import parse_selection_and_aggregate
from attncli.models.library_errors import translate_library_errors
from attncli.resource_limits import format_gibibytes, parse_whole_number

ONE = ("--layers", "1", "--tokens", "3", "--width", "4", "--heads", "2", "--seeds", "1")
DIGITS = "9" * 5000


def said(code: int, *arguments: str) -> str:
    """The one sentence of a refusal."""
    outcome = attn(*arguments)
    assert outcome.code == code, outcome.err
    assert outcome.out == ""
    assert len(outcome.err.splitlines()) == 1
    return outcome.err


# --- configuration files


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("tool = [1]\n# [tool.attn", "'tool' must be a table"),
        ("tool.attn = 3\n# [tool.attn", "'tool.attn' must be a table"),
        ("a = " + "[" * 5000 + "]" * 5000, "nested too deeply"),
        (f"seeds = {DIGITS}", "4300 digits"),
    ],
)
def test_a_configuration_that_is_none(text: str, why: str, tmp_path: Path) -> None:
    path = tmp_path / "pyproject.toml"
    path.write_text(text)
    with pytest.raises(UsageError, match=why):
        load_config_file(str(path))


@pytest.mark.slow
@pytest.mark.parametrize("line", ["a" + " ." * 20_000 + " b", "a" + " " * 100_000 + "b", "a." * 50_000, '"' * 50_000])  # fmt: skip
def test_a_line_without_meaning_is_given_up_at_once(line: str, tmp_path: Path) -> None:
    """A text that spans lines may hold anything; as a program, so that going back and forth for ever would be seen."""
    (tmp_path / "attn.toml").write_text(f'[rank-collapse]\nmetric = """\n{line}\n"""\n')
    done = attn_program("--config", str(tmp_path / "attn.toml"), "config")
    assert done.returncode in (0, 2)
    assert "Traceback" not in done.stderr


# --- words


@pytest.mark.parametrize(
    "read", [parse_condition, parse_allowed_change, parse_selection_and_aggregate]
)
@pytest.mark.parametrize("text", ["a" + " " * 20_000, " " * 20_000, "max(" + " " * 20_000, "a[" + "x," * 20_000, "a" * 50_000 + "!"])  # fmt: skip
def test_a_gate_of_blanks_is_given_up_at_once(read: Any, text: str) -> None:
    with pytest.raises(UsageError, match="cannot read"):
        read(text + "\0")


def test_gates_may_have_blanks_wherever_they_could() -> None:
    gate = parse_condition("  max  (  order  [ SAN ,  layer = 2 ]  )  >=  3  ")
    assert (gate.aggregate, gate.metric, gate.op, gate.number) == ("max", "order", ">=", 3.0)
    assert gate.selectors == (("variant", "SAN"), ("layer", "2"))
    moved = parse_allowed_change("  sink  [ head = 3 ]  :  -  0.5 % ".replace("-  ", "-"))
    assert (moved.metric, moved.sign, moved.limit, moved.unit) == ("sink", "-", 0.5, "%")


def test_a_nul_is_refused_wherever_it_stands() -> None:
    assert "holds a NUL" in said(2, "rank-collapse", "a\0b")
    assert "holds a NUL" in said(2, "check", "-", "--output", "\0")


@pytest.mark.parametrize(
    "line",
    [
        ("rank-collapse", *ONE, "-o", "\ud800.json"),
        ("rank-collapse", *ONE, "--plot", "\ud800.png"),
        ("approximate", "-o", "\ud800.safetensors"),
    ],
    ids=lambda line: f"{line[0]} {line[-2]}",
)
def test_half_a_character_is_in_no_files_name(line: tuple[str, ...]) -> None:
    assert "cannot write" in said(2, *line)


@pytest.mark.slow
def test_check_of_a_stdin_that_is_closed() -> None:
    done = attn_program("check", "-", stdin=None, preexec_fn=lambda: os.close(0))
    assert done.returncode == 3
    assert done.stderr.startswith("attn: cannot read stdin: it is closed")


@pytest.mark.parametrize(
    "arguments",
    [
        ["rank-collapse", *ONE, "--attention", f"sinkhorn:{DIGITS}"],
        ["rank-collapse", *ONE, "--attention", "sinkhorn:999999999"],
        ["rank-collapse", *ONE, "--mask", f"window:{DIGITS}"],
        ["paths", *ONE, "--path", DIGITS],
        ["approximate", "--pattern", f"./x:0.0:top={DIGITS}"],
        ["approximate", "--pattern", f"./x:{DIGITS}.0:top=1"],
        ["head-capacity", "./x", "--head", f"{DIGITS}.0"],
        ["inspect-maps", "maps.safetensors", "--heads", f"0-{DIGITS}"],
        ["inspect-maps", "maps.safetensors", "--layers", "0-99999999"],
    ],
    ids=lambda arguments: " ".join(arguments)[:60],
)
def test_numbers_beyond_any_size_are_words_that_make_no_sense(arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    np.save("x.npy", np.eye(2))
    outcome = attn(*arguments)
    assert outcome.code in (2, 3), outcome.err
    assert len(outcome.err) < 1100


def test_whole_numbers() -> None:
    assert [parse_whole_number(text) for text in ("0", "12", "9" * 18)] == [0, 12, 10**18 - 1]
    assert {parse_whole_number(text) for text in ("", "-1", "1.5", "x", "²", "9" * 19, DIGITS)} == {
        None
    }


# --- limits that are said before the work


@pytest.mark.slow
@pytest.mark.parametrize(
    "arguments",
    [
        ["rank-collapse", "--tokens", "1000000"],
        ["rank-collapse", "--sweep", "tokens=1:1000000"],
        ["rank-collapse", *ONE[:2], *ONE[4:-2], "--seeds", "100000", "--tokens", "9999"],
        ["rank-collapse", "--layers", "1000000000", "--tokens", "1"],
        ["paths", "--tokens", "1000000", "--width", "4", "--heads", "1"],
        ["count-paths", "--layers", "1000000", "--heads", "1000000"],
        ["approximate", "--length", "1000000"],
    ],
    ids=" ".join,
)
def test_what_would_never_end_is_refused_before_it_begins(arguments: list[str]) -> None:
    said(4, *arguments)


@pytest.mark.slow
def test_exact_counts_of_long_networks_have_their_logarithm() -> None:
    """5,000 digits are no note, and Python refuses to write them."""
    outcome = attn("count-paths", "--layers", "5000", "--heads", "12", "--format", "json")
    assert outcome.code == 0
    rows = {(row["metric"], row["length"]): row for row in json.loads(outcome.out)["rows"]}
    assert rows["log10_path_count", 5000]["value"] == pytest.approx(5000 * np.log10(12))
    assert sum(row["value"] for key, row in rows.items() if key[0] == "path_count_share") == pytest.approx(1.0)  # fmt: skip
    assert rows["path_count", 5000]["note"].endswith("log10_path_count")


@pytest.mark.parametrize(
    "size", ["layers=9999999", "layers=5000", "heads=100000", "vocab=1000000000000", "max_position_embeddings=1000000000000"]
)  # fmt: skip
def test_random_models_that_could_not_be_built(size: str) -> None:
    from attncli.model_and_file_sources import parse_source as source
    from attncli.models.random.random_models import make_random_model

    named = source(f"random:bert?{size}")
    with pytest.raises(LimitError, match="random:bert"):
        make_random_model(named.name, named.sizes, 0)


def test_sizes_of_memory_are_plain_numbers() -> None:
    sizes = (2**20, 2**30, 1.6 * 2**30, 160 * 2**30, 12_345 * 2**30)
    assert [format_gibibytes(int(size)) for size in sizes] == ["0.00098 GiB", "1 GiB", "1.6 GiB", "160 GiB", "12,000 GiB"]  # fmt: skip


# --- sentences


def test_lists_of_names_are_cut() -> None:
    assert list_first_names(range(3)) == "0, 1, 2"
    assert list_first_names(range(100)).endswith("39 and 60 more")
    sentence = str(
        make_unknown_name_error("model type", "q" * 10_000, [f"{n:05}" for n in range(5000)])
    )
    assert len(sentence) < 1000
    assert sentence.endswith("and 4,960 more.")


def test_an_unknown_model_type_does_not_list_them_all(tmp_path: Path) -> None:
    saved("BertModel", tmp_path / "m")
    change_config(tmp_path / "m", model_type="zzzzzz99")
    assert len(said(3, "inspect-model", str(tmp_path / "m"))) < 1100


# --- foreign code


def test_a_panic_is_about_the_folder() -> None:
    """The tokenizer library's Rust panics are no Exceptions."""

    class PanicException(BaseException):
        pass

    def panics() -> None:
        raise PanicException("called `Option::unwrap()` on a `None` value")

    with pytest.raises(InputError, match=r"not understood \(PanicException: called"):
        translate_library_errors(Path("model"), "tokenizer.json is not understood", panics)


@pytest.mark.parametrize("kind", [KeyboardInterrupt, MemoryError])
def test_an_interrupt_stays_one(kind: type[BaseException]) -> None:
    def stops() -> None:
        raise kind

    with pytest.raises(kind):
        translate_library_errors(Path("model"), "x", stops)


# --- maps


def maps_of(path: Path, dtype: str, width: int, metadata: object = None) -> Path:
    size = 9 * width
    header: dict[str, Any] = {"layers.0.attention": {"dtype": dtype, "shape": [1, 3, 3], "data_offsets": [0, size]}}  # fmt: skip
    if metadata is not None:
        header["__metadata__"] = metadata
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + bytes(size))
    return path


@pytest.mark.parametrize("dtype", ["U8", "U16", "U32", "U64", "I16", "BOOL", "BF16"])
def test_maps_of_whole_numbers_are_maps(dtype: str, tmp_path: Path) -> None:
    width = {"U8": 1, "BOOL": 1, "U32": 4, "U64": 8}.get(dtype, 2)
    file = MapFile(maps_of(tmp_path / "m.safetensors", dtype, width))
    (strip,) = file.iter_saved_map_rows(file.maps[0])
    assert strip.weights.shape == (1, 1, 3, 3)
    assert not strip.weights.any()


@pytest.mark.parametrize(("dtype", "width"), [("F8_E4M3", 1), ("F8_E5M2", 1), ("C64", 8)])
def test_maps_of_other_types_are_refused(dtype: str, width: int, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=f"holds {dtype}, which is not read"):
        MapFile(maps_of(tmp_path / "m.safetensors", dtype, width))


ODD = ("5", "[1]", '"x"', "[[]]", '{"layers.0.attention": [0.5]}', '{"layers.0.attention": [-1]}', '{"layers.0.attention": [0, 0]}', "{", "[" * 5000, "9" * 5000)  # fmt: skip


@pytest.mark.parametrize("text", ODD, ids=lambda text: text[:20])
@pytest.mark.parametrize("key", ["heads", "spans", "model", "tokens"])
def test_metadata_of_maps_are_ours_or_refused(key: str, text: str, tmp_path: Path) -> None:
    path = maps_of(tmp_path / "m.safetensors", "F32", 4, {key: text})
    with contextlib.suppress(InputError):
        file = MapFile(path)
        assert isinstance(file.model_description, dict)
        assert all(isinstance(label, str) for label in file.token_labels)


def test_a_mask_of_another_shape_is_refused(tmp_path: Path) -> None:
    from safetensors.numpy import save_file

    held = {"layers.0.attention": np.eye(3)[None], "layers.0.visible": np.ones((2, 3), np.uint8)}
    save_file(held, tmp_path / "m.safetensors")
    with pytest.raises(InputError, match=r"not \[query, key\]"):
        MapFile(tmp_path / "m.safetensors")


# --- configs of models, read without torch


@pytest.fixture(scope="module")
def llama(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with rotary positions."""
    import transformers

    folder = tmp_path_factory.mktemp("llama")
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 8, "vocab_size": 9}  # fmt: skip
    transformers.LlamaModel(transformers.LlamaConfig(**sizes)).save_pretrained(folder)
    return folder


@pytest.mark.parametrize(
    "changes",
    [
        {"rope_parameters": None, "rope_theta": -1},
        {"rope_parameters": None, "rope_theta": "x"},
        {"rope_parameters": None, "rope_theta": 0.0},
        {"rope_parameters": None, "rope_theta": 1e400},
        {"rope_parameters": None, "rope_theta": True},
        {"rope_parameters": 5},
        {"rope_parameters": None, "rope_theta": 100.0, "partial_rotary_factor": 7},
        {"num_attention_heads": 10**40},
        {"num_hidden_layers": 2**62},
        {"num_hidden_layers": True},
        {"num_key_value_heads": -2},
        {"head_dim": 0},
    ],
    ids=repr,
)
def test_configs_whose_numbers_are_none(changes: Any, llama: Path, tmp_path: Path) -> None:
    shutil.copytree(llama, tmp_path / "m")
    change_config(tmp_path / "m", **changes)
    module = (str(tmp_path / "m"), "--head", "0.0")
    said(3, "head-capacity", *module, "--pattern", "window:2", "--length", "5")


@pytest.mark.parametrize(
    "name", ["layers.0.input_layernorm.weight", "layers.0.self_attn.q_proj.weight"]
)
def test_weights_of_wrong_axes_under_module(name: str, llama: Path, tmp_path: Path) -> None:
    from safetensors.numpy import load_file, save_file

    shutil.copytree(llama, tmp_path / "m")
    path = tmp_path / "m" / "model.safetensors"
    held = load_file(path)
    save_file({**held, name: held[name].reshape(-1)[: held[name].size // 2].copy()}, path)
    module = (str(tmp_path / "m"), "--head", "0.0")
    sentence = said(3, "head-capacity", *module, "--pattern", "window:2", "--length", "5")
    assert "has shape" in sentence


def test_a_panicking_tokenizer_is_one_sentence(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:  # fmt: skip
    """Special tokens that its template does not know: the library panics, and says so on stderr at length."""
    from fuzz.material import TEXT, tokenizer

    saved("BertModel", tmp_path / "m")
    broken = tokenizer()
    special = broken["post_processor"]["special_tokens"]
    special["another"] = special.pop("[SEP]")
    del broken["model"]["vocab"]["[UNK]"]
    (tmp_path / "m" / "tokenizer.json").write_text(json.dumps(broken))
    sentence = said(3, "inspect-model", str(tmp_path / "m"), "--text", TEXT)
    assert "PanicException" in sentence
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize("value", [float("nan"), -1, 2.5])
def test_a_dropout_that_is_no_probability(value: float, tmp_path: Path) -> None:
    saved("BertModel", tmp_path / "m")
    change_config(tmp_path / "m", hidden_dropout_prob=value)
    sentence = said(3, "inspect-model", str(tmp_path / "m"), "--token-ids", "2,7,5")
    assert "no usable hidden_dropout_prob" in sentence
