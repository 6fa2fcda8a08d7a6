"""The table behind `attn list architectures` is what is found today, on sixty types of all kinds."""

import importlib.util
import random
import warnings
from pathlib import Path
from types import ModuleType

import pytest
import torch
from commands import attn
from documents import PACKAGE
from transformers.models.auto.configuration_auto import CONFIG_MAPPING_NAMES

from attncli.errors import AttnError
from attncli.models.quiet_libraries import silence_libraries

SCRIPT = Path(__file__).parents[1] / "coverage" / "every_architecture.py"

REPRESENTATIVE = """
albert bart beit bert big_bird blip bloom clip codegen cohere convbert ctrl deberta deberta-v2 deepseek_v3 distilbert
electra falcon funnel gemma2 gemma3_text gpt2 gpt_neo gpt_neox gpt_oss gptj hubert jamba led llama llama4_text longformer
m2m_100 mamba mistral mixtral mobilebert modernbert mpnet mpt nllb-moe olmo2 openai-gpt opt perceiver phi phi3 qwen2
qwen3_next roberta roformer siglip squeezebert stablelm swin t5 vit wav2vec2 whisper xlnet
""".split()  # noqa: SIM905 - one name each on sixty lines would be no better to read


def script() -> ModuleType:
    """The script as a module; its folder is no package, and its name would be that of another one."""
    spec = importlib.util.spec_from_file_location(SCRIPT.stem, SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


COVERAGE = script()
TABLE = {result.type: result for result in COVERAGE.read(COVERAGE.TABLE)}


def test_sixty_types_are_run() -> None:
    assert len(REPRESENTATIVE) == 60
    assert set(REPRESENTATIVE) <= set(TABLE)


@pytest.mark.slow
@pytest.mark.parametrize("kind", REPRESENTATIVE)
def test_the_table_says_what_is_found(kind: str) -> None:
    torch.set_num_threads(1)
    with silence_libraries(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of transformers' own code
        found = COVERAGE.examined(kind)
    known = TABLE[kind]
    assert (found.runs, found.capture, found.ablation, found.mixers, found.linear) == (
        known.runs,
        known.capture,
        known.ablation,
        known.mixers,
        known.linear,
    )
    if found.difference:
        assert float(found.difference) <= 1e-6
    assert found.exact.partition(":")[0] == known.exact.partition(":")[0]


@pytest.mark.slow
@pytest.mark.parametrize(
    "kind", [kind for kind in REPRESENTATIVE if TABLE[kind].exact == "equal"][::4]
)
def test_exact_residuals_are_those_of_subtraction_at_any_size(kind: str) -> None:
    """Every fourth type, at sizes drawn for each, in every variant and stack, where subtraction has digits: see `worst_difference`."""
    torch.set_num_threads(1)
    draw = random.Random(kind)
    sizes = {
        "tiny": "",
        "layers": str(draw.choice([2, 3, 5])),
        "width": str(draw.choice([16, 32, 48])),
    }
    with silence_libraries(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            model = COVERAGE.build_model(kind, sizes, seed=draw.randrange(100), dtype=torch.float64)
        except AttnError:  # sizes that do not go with others of the type
            model = COVERAGE.build_model(
                kind, {"tiny": ""}, seed=draw.randrange(100), dtype=torch.float64
            )
        model.config.use_cache = False
        inputs = COVERAGE.make_example_inputs(model)
        with COVERAGE.home(model):
            proof, _ = COVERAGE.try_capture(model, inputs)
            anatomy, _ = COVERAGE.try_ablation(model, inputs)
            assert COVERAGE.try_exact(model, inputs, proof, anatomy) == "equal"


def test_the_table_covers_what_transformers_knows() -> None:
    """More types than were asked for are captured and understood; every other one has its reason."""
    assert set(TABLE) == set(CONFIG_MAPPING_NAMES)
    captured = [result for result in TABLE.values() if result.difference]
    assert len(captured) >= 650
    assert all(float(result.difference) <= 1e-6 for result in captured)
    assert sum(result.ablation == "understood" for result in captured) >= 600
    understood = sum(result.ablation == "understood" for result in captured)
    said = f"Of the {len(TABLE)} model types of transformers, attn captures the attention of {len(captured)}, can switch off the parts of {understood} of these,"
    guide = " ".join((PACKAGE / "guides" / "sources.md").read_text().split())
    assert said in guide
    exact = sum(result.exact == "equal" for result in TABLE.values())
    assert f"computes exact residuals for {exact}." in guide
    assert not [result.type for result in TABLE.values() if result.exact.startswith("differs")]
    for result in TABLE.values():
        if not result.difference:
            reason = result.capture or result.runs
            assert reason == "no attention" or len(reason.partition(": ")[2]) > 10


def test_what_mixes_tokens_beside_attention_is_in_the_table() -> None:
    """Nothing but the classes' own words, and no architecture that has attention alone."""
    mixers = {kind: result.mixers for kind, result in TABLE.items() if result.mixers}
    assert mixers["qwen3_next"] == "gated delta net"
    assert mixers["jamba"] == mixers["falcon_h1"] == "mamba mixer"
    assert mixers["wav2vec2-conformer"] == "convolution module"
    assert not {"bert", "gpt2", "llama", "mixtral", "t5", "vit", "xlnet"} & set(mixers)
    line = next(line for line in attn("list", "architectures").out.splitlines() if line.split()[:1] == ["qwen3_next"])  # fmt: skip
    assert "maps of attention and gated delta net; ablation works" in line


def test_linear_layers_are_in_the_table() -> None:
    linear = {kind: result.linear for kind, result in TABLE.items() if result.linear}
    for kind in (
        "qwen3_5_text",
        "kimi_linear",
        "bamba",
        "lfm2",
        "nemotron_h",
        "mamba",
        "mamba2",
        "rwkv",
        "minimax",
        "recurrent_gemma",
    ):
        assert linear[kind] == TABLE[kind].mixers
    assert "lfm3_vl_vision" not in linear
    lines = {line.split()[0]: line for line in attn("list", "architectures").out.splitlines() if line.strip()}  # fmt: skip
    assert "no attention; maps of mamba mixer; ablation works" in lines["mamba"]
    assert "maps of attention; no maps of short conv" in lines["lfm3_vl_vision"]


def test_no_architecture_is_refused_because_two_attentions_have_one_name() -> None:
    assert not [kind for kind, found in TABLE.items() if "would both be reported" in found.capture]


WORDS = ["maps", "of", "attention;", "ablation", "works"]


def test_the_list_is_the_table() -> None:
    done = attn("list", "architectures")
    assert done.code == 0
    lines = done.out.splitlines()
    assert len([line for line in lines if line.startswith("  ")]) == len(TABLE)
    assert any(line.split() == ["bert", *WORDS] for line in lines)
