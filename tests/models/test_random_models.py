"""Random models: any type, the sizes asked for, the same weights for the same seed, refusals in one sentence."""

import json
from typing import Any

import pytest
import torch
from commands import attn
from transformers import CONFIG_MAPPING, AutoModel, BartConfig, BertConfig, PreTrainedModel

from attncli.capture.reruns.seed_and_precision import force_float64
from attncli.errors import AttnError, InputError, UsageError
from attncli.model_and_file_sources import parse_source
from attncli.models.loading.random_init import make_random_init_model
from attncli.models.model_classes import iter_nested_configs
from attncli.models.random.dummy_inputs import make_example_inputs
from attncli.models.random.random_models import build_model, make_random_model
from attncli.models.random.size_overrides import resolve_config_size_names
from attncli.models.random.tiny_configs import shrink_default_config
from attncli.models.random.tiny_overrides import OVERRIDES
from attncli.models.random.tiny_sizes import TinySizeUnits

torch.set_num_threads(1)

TINY = {"tiny": ""}

DIVERSE = (
    "albert",
    "bart",
    "bloom",
    "clip",
    "deberta-v2",
    "gemma4_text",
    "gpt_neo",
    "gpt_oss",
    "jamba",
    "llama",
    "mamba",
    "qwen3_next",
    "swin",
    "t5",
    "vit_mae",
    "wav2vec2",
    "whisper",
    "xlnet",
)
"""Encoders, decoders and both, of text, images and sound, with experts, windows and state spaces."""


def weights(model: PreTrainedModel) -> torch.Tensor:
    return torch.cat([parameter.flatten().double() for parameter in model.parameters()])


def run(model: PreTrainedModel, inputs: dict[str, Any]) -> torch.Tensor:
    with torch.no_grad(), force_float64():
        found: torch.Tensor = model(**inputs)[0]
    return found


@pytest.mark.parametrize("arch", DIVERSE)
def test_every_kind_of_type_is_built_and_runs(arch: str) -> None:
    model = build_model(arch, TINY, seed=0, dtype=torch.float64)
    assert not any(module.training for module in model.modules())
    assert not any(parameter.requires_grad for parameter in model.parameters())
    assert sum(parameter.numel() for parameter in model.parameters()) < 5e6
    output = run(model, make_example_inputs(model))
    assert output.dtype == torch.float64
    assert bool(output.isfinite().all())


@pytest.mark.parametrize("arch", DIVERSE)
def test_inputs_matter_and_are_the_same_for_the_same_seed(arch: str) -> None:
    model = build_model(arch, TINY, seed=0, dtype=torch.float64)
    first, same, other = (make_example_inputs(model, seed=seed) for seed in (3, 3, 4))
    assert all(torch.equal(first[name], same[name]) for name in first)
    assert not torch.equal(run(model, first), run(model, other))


def test_one_item_without_padding_or_special_ids() -> None:
    model = build_model("bert", TINY, seed=0)
    inputs = make_example_inputs(model, tokens=5000)
    assert set(inputs) == {"input_ids"}
    assert inputs["input_ids"].shape == (1, 5000)
    config = model.config
    special = {config.pad_token_id, config.bos_token_id, config.eos_token_id} - {None}
    assert special
    assert not special & set(inputs["input_ids"].flatten().tolist())


@pytest.mark.parametrize(
    ("arch", "sizes", "expected"),
    [
        ("bert", {"layers": 3, "width": 48, "heads": 3}, (3, 48, 3)),
        ("gpt2", {"layers": "3", "width": "48", "heads": "3"}, (3, 48, 3)),
        ("llama", {"layers": 3, "width": 48, "heads": 3, "vocab": 64, "mlp-width": 96}, (3, 48, 3)),
        ("mistral", {"tiny": "", "layers": 3, "width": 96, "heads": 6, "kv-heads": 3}, (3, 96, 6)),
        ("mistral", {"tiny": "", "layers": 3, "width": 48, "heads": 3}, (3, 48, 3)),
        ("distilbert", {"tiny": "", "n_layers": 5, "dim": 32}, (5, 32, 4)),
        ("qwen3_next", {"layers": 5}, (5, 64, 4)),
        ("gemma3_text", {"layers": 1}, (1, 64, 4)),
        ("recurrent_gemma", {"tiny": "", "layers": 4}, (4, 64, 4)),
    ],
)
def test_sizes_are_those_asked_for(
    arch: str, sizes: dict[str, Any], expected: tuple[int, ...]
) -> None:
    """By words, by each config's own names, in default and tiny configs."""
    config = build_model(arch, sizes, seed=0).config
    found = (config.num_hidden_layers, config.hidden_size, config.num_attention_heads)
    assert found == expected


def test_words_mean_every_stack_and_dots_mean_one() -> None:
    both = {"encoder_layers": 3, "decoder_layers": 3}
    assert resolve_config_size_names("bart", BartConfig(), {"layers": "3"}) == both
    beside = build_model("clip", {"tiny": "", "layers": 3}, seed=0).config
    assert beside.text_config.num_hidden_layers == beside.vision_config.num_hidden_layers == 3
    one = build_model("clip", {"tiny": "", "text_config.num_hidden_layers": 3}, seed=0).config
    assert (one.text_config.num_hidden_layers, one.vision_config.num_hidden_layers) == (3, 2)


def test_key_heads_and_other_attributes() -> None:
    sizes = {"tiny": "", "kv_heads": 1, "hidden_act": "relu", "rms_norm_eps": "0.5"}
    config = build_model("llama", sizes, seed=0).config
    assert (config.num_key_value_heads, config.hidden_act, config.rms_norm_eps) == (1, "relu", 0.5)


@pytest.mark.slow
def test_the_types_own_sizes_where_they_are_small() -> None:
    made = make_random_model("albert", {}, seed=0)
    assert (made.tiny, made.note) == (False, "")
    assert made.model.config.hidden_size == CONFIG_MAPPING["albert"]().hidden_size


def test_a_type_that_is_large_comes_tiny_and_says_so() -> None:
    made = make_random_model("llama", {"layers": 4}, seed=0)
    assert made.tiny
    assert "6.6e+09 parameters" not in made.note  # with 4 layers it has fewer
    assert "tiny" in made.note
    assert made.model.config.num_hidden_layers == 4


def test_initialisation_is_the_classes_own() -> None:
    """What AutoModel draws after the same seed."""
    config = BertConfig(num_hidden_layers=1, hidden_size=48, num_attention_heads=3)
    with torch.random.fork_rng():
        torch.manual_seed(7)
        theirs = AutoModel.from_config(config)
    ours = build_model("bert", {"layers": 1, "width": 48, "heads": 3}, seed=7)
    assert type(ours) is type(theirs)
    assert torch.equal(weights(ours), weights(theirs))


@pytest.mark.parametrize("arch", ["lfm2", "lfm2_moe", "granitemoehybrid", "gpt_neo", "zamba"])
def test_lists_of_kinds_of_layers_are_as_long_as_there_are_layers(arch: str) -> None:
    config = build_model(arch, {"layers": 5}, seed=0).config
    kinds = config.attention_layers if arch == "gpt_neo" else config.layer_types
    assert config.num_hidden_layers == len(kinds) == 5


def test_seeds() -> None:
    first, same, other = (build_model("gpt2", TINY, seed=seed) for seed in (0, 0, 1))
    assert torch.equal(weights(first), weights(same))
    assert not torch.equal(weights(first), weights(other))


@pytest.mark.slow
def test_the_callers_random_numbers_are_left_alone() -> None:
    before = torch.get_rng_state()
    model = build_model("gpt2", {}, seed=5)
    make_example_inputs(model, seed=5)
    assert torch.equal(torch.get_rng_state(), before)


def test_weights_are_the_same_in_every_dtype() -> None:
    single = build_model("llama", TINY, seed=0)
    assert torch.equal(weights(single), weights(build_model("llama", TINY, 0, torch.float64)))
    half = build_model("llama", TINY, 0, torch.bfloat16)
    assert half.dtype == torch.bfloat16
    assert torch.equal(weights(half), weights(single).bfloat16().double())


def test_rotary_angles_are_never_rounded() -> None:
    """As in a checkpoint of that dtype, which does not hold them."""
    half, single = (
        build_model("llama", TINY, 0, dtype) for dtype in (torch.bfloat16, torch.float32)
    )
    assert torch.equal(half.rotary_emb.inv_freq, single.rotary_emb.inv_freq)


@pytest.mark.parametrize(
    ("arch", "sizes", "kind", "said"),
    [
        ("bart-base", {}, UsageError, "did you mean"),
        ("gpt-neox", {}, UsageError, "did you mean 'gpt_neox'?"),
        ("bert", {"withd": 3}, UsageError, "did you mean 'width'?"),
        ("bert", {"hiden_size": 3}, UsageError, "did you mean 'hidden_size'?"),
        ("clip", {"text_config.num_layers": 3}, UsageError, "text_config.num_hidden_layers"),
        ("bert", {"width": 50}, UsageError, "50 is not divisible by 12 heads"),
        ("bert", {"tiny": "", "width": 50}, UsageError, "50 is not divisible by 4 heads"),
        ("llama", {"heads": 4, "kv-heads": 3}, UsageError, "4 heads cannot share 3 key heads"),
        ("bert", {"layers": "many"}, UsageError, "layers=many is not a whole number"),
        ("bert", {"layers": 0}, UsageError, "layers=0"),
        ("bert", {"hidden_act": "nonsense"}, UsageError, "cannot have these sizes"),
        ("timm_wrapper", {}, InputError, "needs timm, which is not installed"),
        ("sam_prompt_encoder", {}, InputError, "no model class"),
    ],
)
def test_refusals(arch: str, sizes: dict[str, Any], kind: type[AttnError], said: str) -> None:
    with pytest.raises(kind) as caught:
        build_model(arch, sizes, seed=0)
    sentence = str(caught.value)
    assert said in sentence
    assert "\n" not in sentence


def test_inputs_that_cannot_be_made_up_are_named() -> None:
    model = build_model("sam2_video", TINY, seed=0)
    with pytest.raises(InputError, match="inference_session"):
        make_example_inputs(model)


HYBRIDS = ("qwen3_next", "gemma3_text", "jamba", "bamba", "lfm2_moe", "gpt_oss", "afmoe")


@pytest.mark.parametrize("arch", HYBRIDS)
def test_tiny_configs_keep_a_layer_of_each_kind(arch: str) -> None:
    config = shrink_default_config(arch, TinySizeUnits(), {})
    assert len(config.layer_types) == config.num_hidden_layers <= 6
    assert len(set(config.layer_types)) == 2


def test_overrides_are_for_types_that_exist() -> None:
    """Of the types, or of configs nested in them; of the classes of those that have no type of their own."""
    without = {type(nested).__name__ for nested in iter_nested_configs(CONFIG_MAPPING["fun_asr_nano"]()) if not nested.model_type}  # fmt: skip
    known = set(CONFIG_MAPPING.keys()) | without
    assert set(OVERRIDES) <= known


def test_nested_configs_are_tiny_too() -> None:
    config = shrink_default_config("llava", TinySizeUnits(), {})
    sizes = {
        nested.hidden_size
        for nested in iter_nested_configs(config)
        if hasattr(nested, "hidden_size")
    }
    assert sizes == {64}


def test_example_inputs_are_made_on_the_models_device() -> None:
    """`meta` stands for the devices that are not here."""
    model = build_model("bert", {"tiny": ""}, seed=0).to("meta")
    assert {value.device.type for value in make_example_inputs(model).values()} == {"meta"}


def test_a_word_that_is_the_configs_own_name_is_understood() -> None:
    assert build_model("kosmos_2_text_model", {"tiny": "", "layers": "3"}, 0).config.layers == 3


@pytest.mark.slow
def test_a_model_with_two_texts_is_fed_the_one_it_reads() -> None:
    """MusicGen's config has a text encoder and a decoder of sound, and transformers calls its text ambiguous."""
    outcome = attn("rank-collapse", "random:musicgen?tiny", "--random-tokens", "6", "--variants", "SAN", "--format", "json")  # fmt: skip
    assert outcome.code == 0, outcome.err
    stacks = {row["stack"] for row in json.loads(outcome.out)["rows"] if row.get("stack")}
    assert len(stacks) == 2


@pytest.mark.parametrize(("size", "said"), [("1", ""), ("0", ""), ("-1", "std >= 0"), ("x", "is not a number")])  # fmt: skip
def test_a_size_that_is_a_float_may_be_written_as_a_whole_number(size: str, said: str) -> None:
    source = parse_source(f"random:bert?tiny&initializer_range={size}")
    if said:
        with pytest.raises(UsageError, match=said):
            build_model(source.name, source.sizes, seed=0)
    else:
        assert build_model(source.name, source.sizes, seed=0).config.initializer_range == float(
            size
        )


@pytest.mark.parametrize("more", ["", "tiny&"])
def test_a_size_that_counts_is_never_cut_to_a_whole_number(more: str) -> None:
    source = parse_source(f"random:bert?{more}layers=2.5")
    with pytest.raises(UsageError, match=r"layers=2\.5 is not a whole number"):
        build_model(source.name, source.sizes, seed=0)
    whole = parse_source("random:bert?tiny&layers=2.0")
    assert build_model(whole.name, whole.sizes, seed=0).config.num_hidden_layers == 2


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
@pytest.mark.parametrize("kind", [*DIVERSE, "llama4_vision_model"])
def test_a_twin_of_the_same_seed_is_the_model_itself(kind: str, dtype: torch.dtype) -> None:
    """To the last bit, with buffers that no checkpoint holds: complex angles keep both parts, others all their digits."""
    model = build_model(kind, TINY, seed=3, dtype=dtype)
    ours, theirs = (
        [*each.named_parameters(), *each.named_buffers()]
        for each in (model, make_random_init_model(model, 3))
    )
    for (name, own), (_, other) in zip(ours, theirs, strict=True):
        assert own.dtype == other.dtype, name
        assert torch.equal(own, other), name
