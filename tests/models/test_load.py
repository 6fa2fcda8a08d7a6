"""Loading: the weights of the files and no others, or one sentence."""

import hashlib
import json
import logging
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file, save_file
from small_checkpoints import change_config, saved
from transformers.utils import logging as transformers_logging

from attncli.errors import AttnError, InputError, LimitError, UsageError
from attncli.model_and_file_sources import parse_source
from attncli.models.files import weight_files
from attncli.models.loading import checkpoints
from attncli.models.loading.load_model import load_model
from attncli.models.loading.load_options import LoadOptions
from attncli.models.loading.loaded_model import LoadedModel
from attncli.models.loading.loading_issues import is_weight_computed_by_code


@pytest.fixture(autouse=True)
def attempts(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The network is unplugged in every test of this file; who tries all the same is written down."""
    found: list[Any] = []

    def refuse(*arguments: Any, **_: Any) -> None:
        found.append(arguments)
        raise OSError("the network is unplugged")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    return found


@pytest.fixture
def silence(capfd: pytest.CaptureFixture[str]) -> Iterator[None]:
    """Nothing reaches stdout or stderr."""
    yield
    assert tuple(capfd.readouterr()) == ("", "")


def same_weights(checkpoint: LoadedModel, model: torch.nn.Module) -> None:
    held = model.state_dict()
    for name, tensor in checkpoint.model.state_dict().items():
        assert torch.equal(tensor, held[name]), name


ALL = [
    "BertModel",
    "BertForMaskedLM",
    "GPT2LMHeadModel",
    "T5ForConditionalGeneration",
    "BartForConditionalGeneration",
    "RoFormerForMaskedLM",
    "ViTModel",
]


@pytest.mark.parametrize("name", ALL)
def test_a_saved_model_comes_back(name: str, tmp_path: Path, silence: None) -> None:
    model = saved(name, tmp_path)
    checkpoint = load_model(str(tmp_path))
    same_weights(checkpoint, model)
    assert type(checkpoint.model).__name__ == name
    assert checkpoint.warnings == ()
    assert checkpoint.folder == tmp_path
    assert not checkpoint.model.training
    assert not any(parameter.requires_grad for parameter in checkpoint.model.parameters())
    assert not getattr(checkpoint.model.config, "use_cache", False)
    assert checkpoint.model_without_head is checkpoint.model.base_model


def test_identity_says_what_was_loaded(tmp_path: Path) -> None:
    model = saved("BertForMaskedLM", tmp_path, torch.bfloat16)
    identity = dict(load_model(str(tmp_path)).identity)
    assert len(identity.pop("weight_sha256")) == 64
    assert identity == {
        "kind": "folder",
        "path": str(tmp_path),
        "model_type": "bert",
        "class": "BertForMaskedLM",
        "parameters": model.num_parameters(),
        "dtype": "bfloat16",
        "dtype_of_file": "bfloat16",
        "device": "cpu",
        "format": "safetensors",
    }


def test_the_hash_is_over_names_types_shapes_and_bytes(tmp_path: Path) -> None:
    """Written down here once more, over a library's own reading of the file."""
    saved("BertModel", tmp_path)
    digest = hashlib.sha256()
    for name, values in sorted(load_file(tmp_path / "model.safetensors").items()):
        digest.update(repr((name, "F32", values.shape)).encode() + values.tobytes())
    assert load_model(str(tmp_path)).identity["weight_sha256"] == digest.hexdigest()


def test_shards_metadata_and_pickles_do_not_change_the_hash(tmp_path: Path) -> None:
    model = saved("BertForMaskedLM", tmp_path / "one")
    saved("BertForMaskedLM", tmp_path / "shards", options={"max_shard_size": "4KB"})
    held = load_file(tmp_path / "one" / "model.safetensors")
    config = (tmp_path / "one" / "config.json").read_text()
    assert len(list((tmp_path / "shards").glob("*.safetensors"))) > 2
    for kind in ("metadata", "pickle"):
        (tmp_path / kind).mkdir()
        (tmp_path / kind / "config.json").write_text(config)
    save_file(held, tmp_path / "metadata" / "model.safetensors", {"note": "other"})
    tensors = {name: torch.from_numpy(values) for name, values in held.items()}
    torch.save(tensors, tmp_path / "pickle" / "pytorch_model.bin")
    options = LoadOptions(allow_pickle=True)
    found = [
        load_model(str(tmp_path / kind), options)
        for kind in ("one", "shards", "metadata", "pickle")
    ]
    assert len({each.identity["weight_sha256"] for each in found}) == 1
    assert [each.identity["format"] for each in found] == ["safetensors"] * 3 + ["pickle"]
    for each in found:
        same_weights(each, model)
    held["cls.predictions.bias"][3] += 1
    save_file(held, tmp_path / "metadata" / "model.safetensors")
    changed = load_model(str(tmp_path / "metadata")).identity["weight_sha256"]
    assert changed != found[0].identity["weight_sha256"]


def test_pickles_are_read_only_when_allowed_and_run_nothing(tmp_path: Path) -> None:
    saved("BertModel", tmp_path)
    (tmp_path / "model.safetensors").unlink()

    class Attack:
        def __reduce__(self) -> tuple[Any, ...]:
            return (Path.touch, (tmp_path / "ran",))

    torch.save({"a": Attack()}, tmp_path / "pytorch_model.bin")
    with pytest.raises(InputError, match="`allow_pickle=True`"):
        load_model(str(tmp_path))
    with pytest.raises(InputError, match="holds more than tensors by name"):
        load_model(str(tmp_path), LoadOptions(allow_pickle=True))
    assert not (tmp_path / "ran").exists()
    torch.save({"state_dict": {}}, tmp_path / "pytorch_model.bin")
    with pytest.raises(InputError, match="more than tensors by name"):
        load_model(str(tmp_path), LoadOptions(allow_pickle=True))


@pytest.mark.parametrize(
    ("stored", "asked", "got"),
    [
        ("float32", None, "float32"),
        ("bfloat16", None, "bfloat16"),
        ("float16", None, "float32"),
        ("float64", None, "float64"),
        ("bfloat16", "float64", "float64"),
        ("float32", "bfloat16", "bfloat16"),
        ("float16", "float16", "float16"),
    ],
)
def test_dtypes(stored: str, asked: str | None, got: str, tmp_path: Path) -> None:
    model = saved("GPT2LMHeadModel", tmp_path, getattr(torch, stored))
    checkpoint = load_model(str(tmp_path), LoadOptions(dtype=asked))
    assert checkpoint.identity["dtype"] == got
    assert checkpoint.identity["dtype_of_file"] == stored
    assert {p.dtype for p in checkpoint.model.parameters()} == {getattr(torch, got)}
    same_weights(checkpoint, model.to(getattr(torch, got)))


def test_the_config_does_not_decide_the_dtype(tmp_path: Path) -> None:
    """A float32 file whose config says float16 would lose its digits."""
    model = saved("GPT2LMHeadModel", tmp_path)
    change_config(tmp_path, dtype="float16")
    same_weights(load_model(str(tmp_path)), model)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"dtype": "int8"}, "unknown dtype"),
        ({"device": "cuda:99"}, "CUDA devices"),
        ({"device": "gpu"}, "choose cpu"),
        ({"device": "meta"}, "choose cpu"),
        ({"device": "mps", "dtype": "float64"}, "mps"),
        ({"device_map": "auto"}, r"`device_map` needs accelerate: pip install 'attncli\[big\]'"),
        (
            {"tensor_parallel": True},
            r"`tensor_parallel` needs accelerate: pip install 'attncli\[big\]'",
        ),
        ({"device_map": "everywhere"}, "unknown device map"),
        ({"revision": "main"}, "`revision`"),
    ],
)
def test_options_that_cannot_be_met(options: dict[str, Any], says: str, tmp_path: Path) -> None:
    """Where accelerate is not installed."""
    saved("BertModel", tmp_path)
    absent = mock.patch.dict("sys.modules", {"accelerate": None})
    with absent, pytest.raises(UsageError, match=says):
        load_model(str(tmp_path), LoadOptions(**options))


def test_a_foreign_prefix_is_refused_though_transformers_loads_it(tmp_path: Path) -> None:
    saved("BertForMaskedLM", tmp_path)
    held = load_file(tmp_path / "model.safetensors")
    save_file(
        {f"model.net.{name}": values for name, values in held.items()},
        tmp_path / "model.safetensors",
    )
    with pytest.raises(InputError, match=r"lacks 37 weights .* names begin with 'model\.net\.'"):
        load_model(str(tmp_path))


def rewrite(folder: Path, change: Any) -> None:
    held = dict(load_file(folder / "model.safetensors"))
    change(held)
    save_file(held, folder / "model.safetensors")


def test_a_missing_weight_of_the_body_is_refused_unless_allowed(tmp_path: Path) -> None:
    name = "bert.encoder.layer.1.attention.self.key.bias"
    saved("BertForMaskedLM", tmp_path)
    rewrite(tmp_path, lambda held: held.pop(name))
    with pytest.raises(InputError, match=name.replace(".", r"\.")):
        load_model(str(tmp_path))
    options = LoadOptions(allow_missing=True, seed=3)
    one, two = load_model(str(tmp_path), options), load_model(str(tmp_path), options)
    assert name in one.warnings[0]
    same_weights(one, two.model)


def test_missing_weights_are_drawn_from_the_seed(tmp_path: Path) -> None:
    name = "bert.encoder.layer.1.attention.self.key.weight"
    saved("BertForMaskedLM", tmp_path)
    rewrite(tmp_path, lambda held: held.pop(name))
    before = torch.random.get_rng_state()
    drawn = [
        load_model(str(tmp_path), LoadOptions(allow_missing=True, seed=seed)).model.state_dict()[
            name
        ]
        for seed in (3, 3, 4)
    ]
    assert torch.equal(drawn[0], drawn[1])
    assert not torch.equal(drawn[0], drawn[2])
    assert torch.equal(before, torch.random.get_rng_state())


def test_heads_beside_the_body_are_warnings(tmp_path: Path) -> None:
    """A masked-word head that is gone, a classifier that has no place, a pooler on either side."""
    saved("BertForMaskedLM", tmp_path)
    rewrite(tmp_path, lambda held: held.pop("cls.predictions.transform.dense.weight"))
    rewrite(tmp_path, lambda held: held.update({"classifier.weight": np.ones((2, 16), np.float32)}))
    rewrite(tmp_path, lambda held: held.update({"bert.pooler.dense.bias": np.ones(16, np.float32)}))
    warnings = load_model(str(tmp_path)).warnings
    assert ["1 weight (cls.predictions.transform.dense.weight)" in warnings[0]] == [True]
    assert "2 weights (bert.pooler.dense.bias, classifier.weight)" in warnings[1]
    change_config(tmp_path, architectures=["BertModel"])
    warnings = load_model(str(tmp_path)).warnings
    assert "(pooler.dense.weight)" in warnings[0]


def test_more_blocks_in_the_files_than_in_the_config_are_refused(tmp_path: Path) -> None:
    saved("BertForMaskedLM", tmp_path)
    change_config(tmp_path, num_hidden_layers=1)
    with pytest.raises(InputError, match=r"no place for"):
        load_model(str(tmp_path))
    with pytest.raises(InputError, match=r"no place for"):
        load_model(str(tmp_path), LoadOptions(allow_missing=True))


def test_other_shapes_are_named(tmp_path: Path) -> None:
    saved("BertForMaskedLM", tmp_path)
    change_config(tmp_path, intermediate_size=48)
    with pytest.raises(InputError, match=r"dense.bias is \(24,\) not \(48,\)"):
        load_model(str(tmp_path))


def test_computed_positions_may_be_missing(tmp_path: Path) -> None:
    """RoFormer's sinusoids are no part of old files; the model makes them again."""
    name = "roformer.encoder.embed_positions.weight"
    model = saved("RoFormerForMaskedLM", tmp_path)
    made = type(model)(model.config).state_dict()[name]
    rewrite(tmp_path, lambda held: held.pop(name))
    checkpoint = load_model(str(tmp_path))
    assert checkpoint.warnings == ()
    torch.testing.assert_close(checkpoint.model.state_dict()[name], made)


def test_a_trained_weight_with_a_fixed_start_is_not_computed(tmp_path: Path) -> None:
    """An untrained gain is 1 whatever the seed: that makes it no less missing."""
    saved("RoFormerForMaskedLM", tmp_path)
    rewrite(tmp_path, lambda held: held.pop("roformer.encoder.layer.0.output.LayerNorm.weight"))
    with pytest.raises(InputError, match="lacks 1 weight"):
        load_model(str(tmp_path))


def test_a_trained_weight_with_a_computed_start_is_not_computed(tmp_path: Path) -> None:
    """Mamba's A_log starts as log 1, log 2, … whatever the seed, and is trained from there."""
    saved("MambaForCausalLM", tmp_path)
    rewrite(tmp_path, lambda held: held.pop("backbone.layers.0.mixer.A_log"))
    with pytest.raises(InputError, match=r"A_log"):
        load_model(str(tmp_path))


def test_what_is_computed_is_told_from_what_merely_starts_somewhere() -> None:
    table = torch.arange(6.0)
    assert is_weight_computed_by_code("positions", table, table.clone())
    assert not is_weight_computed_by_code("running_mean", torch.zeros(6), torch.zeros(6))
    assert not is_weight_computed_by_code("features", torch.rand(6), torch.rand(6))
    assert is_weight_computed_by_code("norm.num_batches_tracked", torch.tensor(0), torch.tensor(0))


def test_what_a_class_declares_ignorable_is_missing_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    saved("BertForMaskedLM", tmp_path)
    rewrite(tmp_path, lambda held: held.pop("bert.encoder.layer.0.output.dense.weight"))
    import transformers

    monkeypatch.setattr(
        transformers.BertForMaskedLM, "_keys_to_ignore_on_load_missing", [r"output\.dense"]
    )
    with pytest.raises(InputError, match=r"output\.dense\.weight"):
        load_model(str(tmp_path))


@pytest.mark.slow
def test_tied_and_untied_heads(tmp_path: Path) -> None:
    """T5 1.1 has a head of its own although its config ties it; a tied one is in the file once."""
    model = saved("T5ForConditionalGeneration", tmp_path, tie_word_embeddings=False)
    change_config(tmp_path, tie_word_embeddings=True)
    checkpoint = load_model(str(tmp_path))
    same_weights(checkpoint, model)
    assert checkpoint.warnings == ()


CONFIGS: dict[str, tuple[dict[str, Any], str]] = {
    "no type": ({"model_type": None}, "names no model_type"),
    "unknown type": ({"model_type": "brt"}, "did you mean"),
    "own code": (
        {"model_type": "mine", "auto_map": {"AutoConfig": "a.B", "AutoModel": "a.C"}},
        "`trust_remote_code=True`",
    ),
    "quantised": ({"quantization_config": {"quant_method": "gptq"}}, "gptq"),
    "another model": ({"model_type": "gpt2"}, "GPT2|no place|lacks"),
    "negative": ({"hidden_size": -16}, "cannot|describes no model"),
    "no heads": ({"num_attention_heads": 0}, "describes no model|not understood"),
    "heads that do not divide": ({"num_attention_heads": 3}, "describes no model|not understood"),
    "endless": ({"num_hidden_layers": 10**9}, "no model has more than"),
    "huge": ({"vocab_size": 10**12}, "another model"),
    "words": ({"hidden_size": "many"}, "not understood"),
}


@pytest.mark.parametrize("case", CONFIGS)
def test_configs_that_are_refused(case: str, tmp_path: Path, silence: None) -> None:
    changes, says = CONFIGS[case]
    saved("BertForMaskedLM", tmp_path)
    change_config(tmp_path, **changes)
    with pytest.raises(InputError, match=says) as refused:
        load_model(str(tmp_path))
    assert "\n" not in str(refused.value)


def test_a_foreign_class_falls_back_to_the_body(tmp_path: Path) -> None:
    model = saved("BertForMaskedLM", tmp_path)
    for names in (["Zebra"], ["GPT2LMHeadModel"], [], None):
        change_config(tmp_path, architectures=names)
        checkpoint = load_model(str(tmp_path))
        assert type(checkpoint.model).__name__ == "BertModel"
        assert "loaded as BertModel" in checkpoint.warnings[0]
        held = model.base_model.state_dict()
        for name, tensor in checkpoint.model_without_head.state_dict().items():
            assert "pooler" in name or torch.equal(tensor, held[name])


def test_remote_code_runs_only_when_trusted(tmp_path: Path) -> None:
    saved("BertForMaskedLM", tmp_path)
    code = (
        "from pathlib import Path\nPath(__file__).with_name('ran').touch()\n"
        "from transformers import BertConfig, BertForMaskedLM\n"
        "class MyConfig(BertConfig):\n    model_type = 'mine'\n"
        "class MyModel(BertForMaskedLM):\n    config_class = MyConfig\n"
    )
    (tmp_path / "modeling_mine.py").write_text(code)
    auto_map = {"AutoConfig": "modeling_mine.MyConfig", "AutoModel": "modeling_mine.MyModel"}
    change_config(tmp_path, model_type="mine", auto_map=auto_map)
    with pytest.raises(InputError, match="`trust_remote_code=True`"):
        load_model(str(tmp_path))
    checkpoint = load_model(str(tmp_path), LoadOptions(trust_remote_code=True))
    assert type(checkpoint.model).__name__ == "MyModel"
    assert checkpoint.identity["remote_code"] is True


def test_known_types_never_run_their_own_code(tmp_path: Path) -> None:
    model = saved("BertForMaskedLM", tmp_path)
    (tmp_path / "evil.py").write_text("raise SystemExit('ran')\n")
    change_config(tmp_path, auto_map={"AutoConfig": "evil.C", "AutoModelForMaskedLM": "evil.M"})
    same_weights(load_model(str(tmp_path)), model)


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A hub cache with one model in it."""
    from huggingface_hub import constants

    root = tmp_path / "hub"
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(root))
    home = root / "models--org--name"
    (home / "refs").mkdir(parents=True)
    (home / "refs" / "main").write_text("c0ffee" * 6 + "abcd")
    saved("BertForMaskedLM", home / "snapshots" / ("c0ffee" * 6 + "abcd"))
    return root


@pytest.mark.parametrize("offline", [True, False])
def test_the_cache_is_enough_without_network(
    cache: Path, offline: bool, silence: None, attempts: list[Any]
) -> None:
    identity = load_model("org/name", LoadOptions(offline=offline)).identity
    assert identity["kind"] == "hub"
    assert identity["name"] == "org/name"
    assert identity["commit"] == "c0ffee" * 6 + "abcd"
    assert bool(attempts) is not offline


def test_folders_and_random_models_never_ask_the_network(
    tmp_path: Path, attempts: list[Any]
) -> None:
    saved("GPT2LMHeadModel", tmp_path)
    load_model(str(tmp_path))
    load_model("random:gpt2?tiny")
    assert attempts == []


def test_a_model_that_is_not_in_the_cache(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match=r"not in the cache and the hub was not asked"):
        load_model("org/other", LoadOptions(offline=True))
    with pytest.raises(InputError, match=r"org/name@v2 is not in the cache and the hub cannot"):
        load_model("org/name@v2")
    (cache / "org" / "other").mkdir(parents=True)
    monkeypatch.chdir(cache)
    with pytest.raises(InputError, match=r"\./org/other"):
        load_model("org/other")
    with pytest.raises(UsageError, match="two revisions"):
        load_model("org/name@v2", LoadOptions(revision="v3"))


def test_a_shadowed_hub_id_is_a_warning(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (cache / "org" / "name").mkdir(parents=True)
    monkeypatch.chdir(cache)
    assert "./org/name" in load_model("org/name").warnings[0]


def test_random_models_have_an_identity(silence: None) -> None:
    one, two, other = (
        load_model("random:bert?tiny&layers=1", LoadOptions(seed=seed)) for seed in (0, 0, 1)
    )
    assert one.identity == two.identity
    assert one.identity["weight_sha256"] != other.identity["weight_sha256"]
    assert one.folder is None
    assert one.identity["sizes"] == {"tiny": 1, "layers": 1}
    assert json.dumps(dict(one.identity))


def test_an_encoder_that_a_model_calls_its_base_is_not_all_of_it(tmp_path: Path) -> None:
    """DINOv3's base is its encoder, which needs the positions that the whole model makes; its other weights count too."""
    checkpoint = load_model("random:dinov3_vit?tiny")
    assert checkpoint.model_without_head is checkpoint.model
    checkpoint.model_without_head(pixel_values=torch.zeros(1, 3, 64, 64))
    checkpoint.model.save_pretrained(tmp_path)
    assert load_model(str(tmp_path)).warnings == ()
    tensors = load_file(tmp_path / "model.safetensors")
    del tensors["norm.weight"]
    save_file(tensors, tmp_path / "model.safetensors", {"format": "pt"})
    with pytest.raises(InputError, match=r"norm\.weight"):
        load_model(str(tmp_path))


def test_one_file_is_no_model(tmp_path: Path) -> None:
    save_file({"x": np.ones(1)}, tmp_path / "maps.safetensors")
    with pytest.raises(InputError, match=r"a model is the folder with its config\.json"):
        load_model(str(tmp_path / "maps.safetensors"))


def test_a_model_that_does_not_fit_is_refused_before_it_is_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the file's own dtype it stays in the file; in another one it would need memory of its own."""
    saved("BertForMaskedLM", tmp_path)
    monkeypatch.setattr("attncli.resource_limits.available_memory", lambda: 1000)
    load_model(str(tmp_path))
    monkeypatch.setattr(checkpoints, "assign_tensors_to_model", lambda *_: pytest.fail("loaded"))
    monkeypatch.setattr(weight_files, "read_byte_ranges", lambda *_: pytest.fail("read"))
    with pytest.raises(LimitError, match="`dtype`"):
        load_model(str(tmp_path), LoadOptions(dtype="float64"))


def test_a_type_that_nobody_asked_for_is_said(tmp_path: Path) -> None:
    """float16 takes twice its memory on a CPU, where its products are slow."""
    saved("BertModel", tmp_path, torch.float16)
    (sentence,) = load_model(str(tmp_path)).warnings
    assert (
        sentence
        == "the weights are stored in float16 and run in float32, which takes 2 times the memory."
    )
    for dtype in ("float16", "float32", "float64"):
        assert load_model(str(tmp_path), LoadOptions(dtype=dtype)).warnings == ()


def test_logging_is_as_before(tmp_path: Path) -> None:
    saved("BertModel", tmp_path)
    bars = transformers_logging.is_progress_bar_enabled()
    transformers_logging.set_verbosity(logging.INFO)
    try:
        load_model(str(tmp_path))
        with pytest.raises(AttnError):
            load_model(str(tmp_path / "none"))
        assert transformers_logging.get_verbosity() == logging.INFO
        assert transformers_logging.is_progress_bar_enabled() is bars
    finally:
        transformers_logging.set_verbosity_warning()


def test_a_parsed_source_is_taken_too(tmp_path: Path) -> None:
    saved("BertModel", tmp_path)
    assert load_model(parse_source(str(tmp_path))).identity == load_model(str(tmp_path)).identity
