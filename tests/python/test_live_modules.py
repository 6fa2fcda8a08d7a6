"""A module of the caller's own: measured as a checkpoint of it would be, and left as it was."""

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from small_checkpoints import model_of
from torch import nn
from transformers import PreTrainedModel

import attncli as attn
from attncli.errors import InputError, UsageError

ASKED: dict[str, Callable[[Any], attn.Answer]] = {
    "rank_collapse": lambda model: attn.rank_collapse(model, random_tokens=8),
    "exact": lambda model: attn.rank_collapse(model, random_tokens=8, exact=True),
    "twin": lambda model: attn.rank_collapse(model, random_tokens=8, with_random_init=True),
    "inspect_model": lambda model: attn.inspect_model(model, random_tokens=8, metric="all"),
    "attribute": lambda model: attn.attribute(model, random_tokens=8, token="0"),
    "paths": lambda model: attn.paths(model, random_tokens=8),
    "double paths": lambda model: attn.paths(model, random_tokens=8, dtype="float64"),
    "sub-blocks": lambda model: attn.rank_collapse(model, random_tokens=8, sub_blocks=True),
    "shuffled": lambda model: attn.inspect_model(model, random_tokens=8, with_shuffled_text=True),
    "paths by head": lambda model: attn.paths(model, random_tokens=8, by="head"),
    "paths by steps": lambda model: attn.paths(model, random_tokens=8, by="steps"),
    "single paths": lambda model: attn.paths(model, random_tokens=8, sample=2),
    "loss": lambda model: attn.paths(model, random_tokens=8, loss=True),
}
CONFIGS: dict[str, Callable[[], PreTrainedModel]] = {
    "bert": lambda: transformers.BertForMaskedLM(
        transformers.BertConfig(
            hidden_size=16,
            num_hidden_layers=2,
            num_attention_heads=2,
            intermediate_size=24,
            vocab_size=40,
        )
    ),
    "llama": lambda: transformers.LlamaForCausalLM(
        transformers.LlamaConfig(
            hidden_size=16,
            num_hidden_layers=2,
            num_attention_heads=2,
            intermediate_size=24,
            vocab_size=40,
        )
    ),
}


OTHERS: dict[str, Callable[[], PreTrainedModel]] = {
    "gpt2, tied, eager": lambda: model_of("GPT2LMHeadModel", attn_implementation="eager"),
    "gpt2, bfloat16": lambda: model_of("GPT2LMHeadModel").to(torch.bfloat16),
    "t5": lambda: model_of("T5ForConditionalGeneration"),
    "vit": lambda: model_of("ViTModel"),
}
"""Tied weights, another implementation of attention, half precision, two stacks, images."""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "gradients"),
    [*((name, True) for name in ASKED), ("rank_collapse", False), ("inspect_model", False)],
)
@pytest.mark.parametrize("kind", OTHERS)
def test_models_of_other_kinds_are_left_as_they_were(kind: str, name: str, gradients: bool) -> None:
    """Also where a question is refused, and within a caller's own `torch.no_grad`."""
    torch.manual_seed(0)
    model = OTHERS[kind]().train()
    with torch.set_grad_enabled(gradients):
        before = state_of(model)
        with contextlib.suppress(attn.AttnError):
            ASKED[name](model)
        assert state_of(model) == before


@pytest.mark.slow
@pytest.mark.parametrize("kind", OTHERS)
def test_models_of_other_kinds_have_answers(kind: str) -> None:
    model = OTHERS[kind]()
    assert ASKED["rank_collapse"](model).rows
    assert ASKED["inspect_model"](model).rows


@pytest.fixture(params=CONFIGS)
def training(request: pytest.FixtureRequest) -> PreTrainedModel:
    """In the middle of a training step: gradients, dropout on, one layer frozen, a hook of the caller's."""
    torch.manual_seed(0)
    model = CONFIGS[request.param]()
    model.train()
    next(model.parameters()).requires_grad_(False)
    model.register_forward_hook(lambda *_: None)
    model(input_ids=torch.arange(5)[None]).logits.sum().backward()
    return model


def state_of(model: PreTrainedModel) -> list[Any]:
    """Everything that a caller could find changed."""
    tensors = [*model.named_parameters(), *model.named_buffers()]
    held = [
        (name, t.data_ptr(), t.dtype, t.requires_grad, t.grad is None or t.grad.data_ptr(), t.tolist())
        for name, t in tensors
    ]  # fmt: skip
    modules = [
        (
            m.training,
            list(m._forward_hooks),
            list(m._forward_pre_hooks),
            sorted(vars(m)),
            len(m._backward_hooks),
        )
        for m in model.modules()
    ]
    configs = [repr(vars(m.config)) for m in model.modules() if hasattr(m, "config")]
    return [held, modules, configs, torch.get_rng_state().tolist(), torch.is_grad_enabled()]


@pytest.mark.slow
@pytest.mark.parametrize("name", ASKED)
def test_it_is_left_as_it_was(training: PreTrainedModel, name: str) -> None:
    before = state_of(training)
    refused = name == "loss" and training.config.model_type == "bert"
    with pytest.raises(attn.AttnError) if refused else contextlib.nullcontext():
        ASKED[name](training)
    assert state_of(training) == before


@pytest.mark.parametrize("name", ["rank_collapse", "inspect_model", "paths"])
def test_it_is_left_as_it_was_by_an_error(training: PreTrainedModel, name: str) -> None:
    """In the middle of the work, where blocks, functions and types are all in other hands."""
    calls = 0

    def fail(*_: Any) -> None:
        nonlocal calls
        calls += 1
        if calls > 2:
            raise ZeroDivisionError

    last = [m for m in training.base_model.modules() if isinstance(m, nn.Linear)][-1]
    handle = last.register_forward_hook(fail)
    before = state_of(training)
    with pytest.raises(InputError, match="ZeroDivisionError"):  # what hangs on a model is its own
        ASKED[name](training)
    assert state_of(training) == before
    handle.remove()


@pytest.mark.slow
def test_it_is_measured_as_its_checkpoint_is(training: PreTrainedModel, tmp_path: Path) -> None:
    training.save_pretrained(tmp_path)
    for ask in (attn.rank_collapse, attn.inspect_model, attn.paths):
        mine, theirs = ask(training, random_tokens=8), ask(str(tmp_path), random_tokens=8)
        assert mine.rows == theirs.rows
        assert mine.source["kind"] == "live"
        assert mine.source["weight_sha256"] == theirs.source["weight_sha256"]


@pytest.mark.parametrize("dtype", ["float64", "bfloat16", "float16"])
def test_in_any_type_it_is_measured_as_its_checkpoint_is(
    training: PreTrainedModel, dtype: str, tmp_path: Path
) -> None:
    """Rotary angles, which no checkpoint holds, are rounded in neither."""
    training.save_pretrained(tmp_path)
    told: dict[str, Any] = {"token_ids": list(range(1, 39)), "dtype": dtype}
    live, saved = (attn.inspect_model(each, **told) for each in (training, tmp_path))
    assert live.rows == saved.rows


@pytest.mark.slow
def test_a_tokenizer_comes_beside_it(training: PreTrainedModel) -> None:
    from tokenizers import Tokenizer, models, pre_tokenizers

    words = {
        word: number for number, word in enumerate(["[UNK]", "the", "dog", "barked", "at", "her"])
    }
    raw = Tokenizer(models.WordLevel(words, unk_token="[UNK]"))
    raw.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=raw, unk_token="[UNK]")
    report = attn.inspect_model(training, tokenizer=tokenizer, text="the dog barked at her")
    assert report.input["texts"][0]["tokens"] == 5
    for ask in (attn.rank_collapse, attn.paths):
        assert ask(training, tokenizer=tokenizer, text="the dog barked").input["texts"][0]["tokens"] == 3  # fmt: skip
    with pytest.raises(attn.AttnError, match="checkpoint brings its own"):
        attn.inspect_model("random:bert", tokenizer=tokenizer)


@pytest.mark.parametrize("wrong", ["gpt2", len, lambda text: {"input_ids": [1]}])
def test_what_is_no_tokenizer_is_refused_by_the_parameters_name(wrong: Any) -> None:
    model = CONFIGS["bert"]()
    for ask in (attn.inspect_model, attn.rank_collapse, attn.paths):
        with pytest.raises(UsageError, match="`tokenizer` must be a tokenizer of transformers"):
            ask(model, text="hello", tokenizer=wrong)
        with pytest.raises(UsageError, match="`tokenizer` must be a tokenizer of transformers"):
            ask(model, random_tokens=8, tokenizer=wrong)
        with pytest.raises(InputError, match="came without a tokenizer: give `tokenizer` with it"):
            ask(model, text="hello")
        with pytest.raises(UsageError, match="`tokenizer` goes with a live module"):
            ask("random:bert", tokenizer=object())
        with pytest.raises(
            UsageError, match="measured where it is: move it, or leave `device_map`"
        ):
            ask(model, random_tokens=8, device_map="auto")


def test_what_a_tokenizer_raises_is_told_of_the_model() -> None:
    class Broken:
        unk_token_id = 0

        def __call__(self, *_: Any, **__: Any) -> Any:
            raise KeyError("no such word")

        def convert_ids_to_tokens(self, ids: Any) -> Any:
            return ids

    with pytest.raises(InputError, match="this BertForMaskedLM: text 1 cannot be tokenized"):
        attn.inspect_model(CONFIGS["bert"](), text="hello", tokenizer=Broken())


def test_a_sweep_takes_a_questions_name_or_function_and_names_of_models(tmp_path: Path) -> None:
    model = CONFIGS["bert"]()
    options: dict[str, Any] = {"into": tmp_path, "random_tokens": 8, "variants": "SAN"}
    source = "random:gpt2?layers=1&width=16&heads=2"
    reports = [attn.sweep(command, source, **options).rows for command in ("rank-collapse", "rank_collapse", attn.rank_collapse)]  # fmt: skip
    assert reports[0]
    assert reports == [reports[0]] * 3
    for given in (model, [model], [source, model]):
        with pytest.raises(UsageError, match="takes names, not a BertForMaskedLM"):
            attn.sweep("rank-collapse", given, into=tmp_path)
    with pytest.raises(UsageError, match="unknown command to sweep 'approximate'"):
        attn.sweep(attn.approximate, source, into=tmp_path)
    with pytest.raises(UsageError, match="`command` must be a text, not 3"):
        attn.sweep(3, source, into=tmp_path)  # type: ignore[arg-type]


def test_what_is_no_model_is_refused_by_its_type() -> None:
    with pytest.raises(attn.AttnError, match="a Linear is no model that is understood"):
        attn.rank_collapse(nn.Linear(2, 2))
    with pytest.raises(
        attn.AttnError, match=r"a Linear is no model of transformers.*give `inputs`"
    ):
        attn.inspect_model(nn.Linear(2, 2))
    with pytest.raises(attn.AttnError, match="a list is no model"):
        attn.rank_collapse([1, 2])


@pytest.mark.filterwarnings("ignore")
def test_packed_weights_are_refused_by_name(training: PreTrainedModel) -> None:
    packed = torch.ao.quantization.quantize_dynamic(training.eval(), {torch.nn.Linear})
    with pytest.raises(InputError, match=r"_packed_params.*quantised weights are not read"):
        attn.inspect_model(packed, token_ids="3,5,7")


class Packed(torch.nn.Parameter):
    """As bitsandbytes has Params4bit and Int8Params: a Parameter of packed numbers, in a layer that is a Linear."""


Packed.__module__ = "bitsandbytes.nn.modules"


@pytest.mark.parametrize("name", ["Linear4bit", "Linear8bitLt"])
def test_layers_of_packed_numbers_are_refused_by_name(name: str) -> None:
    """By every question, whether the model is of transformers or not."""
    linear = type(name, (torch.nn.Linear,), {"__module__": "bitsandbytes.nn.modules"})
    bert = CONFIGS["bert"]().base_model
    layer = linear(16, 16)
    layer.weight = Packed(torch.zeros(32, 1, dtype=torch.uint8), requires_grad=False)
    bert.encoder.layer[0].attention.self.query = layer
    said = rf"0.attention.self.query of this Bert\w+ is quantised \(bitsandbytes's {name}\).* dequantize\(\)"
    for ask in (attn.inspect_model, attn.rank_collapse, attn.paths):
        with pytest.raises(InputError, match=said):
            ask(bert)
    with pytest.raises(InputError, match=said):
        attn.inspect_weights(bert)
    with pytest.raises(InputError, match=said):
        attn.inspect_model(bert.encoder, inputs=torch.zeros(1, 3, 16))


def test_a_plain_layer_of_such_a_library_is_no_hindrance() -> None:
    """Its embeddings with a norm hold numbers as any other."""
    plain = type(
        "StableEmbedding", (torch.nn.Embedding,), {"__module__": "bitsandbytes.nn.modules"}
    )
    bert = CONFIGS["bert"]().base_model
    bert.embeddings.word_embeddings = plain(40, 16)
    assert attn.inspect_model(bert, random_tokens=6).rows
