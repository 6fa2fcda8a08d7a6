"""Modules of other origins: what is said of their attention is what their own code computes."""

import math
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from safetensors.torch import load_file
from torch import Tensor, nn

import attncli as attn
from attncli.errors import InputError, UsageError

WIDTH, HEADS, TOKENS = 24, 3, 9


def encoder(**keywords: Any) -> nn.TransformerEncoder:
    torch.manual_seed(0)
    return nn.TransformerEncoder(
        nn.TransformerEncoderLayer(WIDTH, HEADS, 48, **keywords), 2, enable_nested_tensor=False
    )


def states(*shape: int) -> Tensor:
    return torch.randn(*shape, WIDTH, generator=torch.Generator().manual_seed(1))


def split(tensor: Tensor) -> Tensor:
    return tensor.unflatten(-1, (HEADS, -1)).transpose(-2, -3)


class Flex(nn.Module):
    """torch's own function, which a module imports by name."""

    def forward(self, x: Tensor) -> Tensor:
        from torch.nn.attention.flex_attention import flex_attention

        heads = split(x)
        return flex_attention(heads, heads, heads).transpose(-2, -3).flatten(-2)


class Projections(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(WIDTH, WIDTH) for _ in range(3))

    def sides(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return split(self.q(x)), split(self.k(x)), split(self.v(x))


class WithSdpa(Projections):
    """Attention in a class, and under a name, that does not say so."""

    def forward(self, x: Tensor) -> Tensor:
        found = F.scaled_dot_product_attention(*self.sides(x), is_causal=True)
        return found.transpose(-2, -3).flatten(-2)


class WithSoftmax(Projections):
    """The same by hand, with a module of torch's for the softmax."""

    def __init__(self) -> None:
        super().__init__()
        self.share = nn.Softmax(dim=-1)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.sides(x)
        scores = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])
        future = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1)
        found = self.share(scores.masked_fill(future, -math.inf)) @ v
        return found.transpose(-2, -3).flatten(-2)


class Mixing(nn.Module):
    def __init__(self, kind: type[nn.Module]) -> None:
        super().__init__()
        self.norm, self.mix, self.wide = nn.LayerNorm(WIDTH), kind(), nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.mix(self.norm(x))
        return x + self.wide(x).relu()


class Classifier(nn.Module):
    """Words in, shares of classes out: its last softmax is no attention."""

    def __init__(self, kind: type[nn.Module], layers: int = 2) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.words = nn.Embedding(30, WIDTH)
        self.steps = nn.ModuleList([Mixing(kind) for _ in range(layers)])
        self.out = nn.Linear(WIDTH, 5)

    def forward(self, ids: Tensor, scale: float = 1.0) -> Tensor:
        x = self.words(ids) * scale
        for step in self.steps:
            x = step(x)
        return self.out(x).softmax(-1)


IDS = torch.arange(TOKENS)[None] * 3 % 30


def maps_of(module: nn.Module, inputs: Any, path: Path) -> list[Tensor]:
    """As `save_maps` writes them, in the order of their layers."""
    attn.inspect_model(module, inputs=inputs, save_maps=path, metric="entropy")
    found = load_file(path)
    return [found[name] for name in sorted(found) if found[name].is_floating_point()]


def causal_maps(module: Classifier) -> list[Tensor]:
    """By the definition, in float64."""
    x, found = module.words(IDS), []
    for step in module.steps:
        assert isinstance(step, Mixing)
        assert isinstance(step.mix, Projections)
        q, k, _ = (side.double() for side in step.mix.sides(step.norm(x)))
        scores = (q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1]))[0]
        for row in range(TOKENS):
            scores[:, row, row + 1 :] = -math.inf
        found.append(scores.softmax(-1))
        x = step(x)
    return found


@pytest.mark.parametrize("kind", [WithSdpa, WithSoftmax])
def test_attention_by_hand_is_found_whatever_it_is_called(
    kind: type[nn.Module], tmp_path: Path
) -> None:
    module = Classifier(kind).eval()
    with torch.no_grad():
        wanted = causal_maps(module)
    found = maps_of(module, IDS, tmp_path / "maps.safetensors")
    assert len(found) == 2
    for ours, theirs in zip(found, wanted, strict=True):
        torch.testing.assert_close(ours.reshape(theirs.shape).double(), theirs, atol=1e-6, rtol=0)


@pytest.mark.parametrize("first", [True, False], ids=["batch first", "tokens first"])
def test_torchs_own_encoder(first: bool, tmp_path: Path) -> None:
    module = encoder(batch_first=first).eval()
    x = states(1, TOKENS) if first else states(TOKENS, 1)
    found = maps_of(module, x, tmp_path / "maps.safetensors")
    with torch.no_grad():
        for ours, layer in zip(found, module.layers, strict=True):
            assert isinstance(layer, nn.TransformerEncoderLayer)
            _, wanted = layer.self_attn(x, x, x, need_weights=True, average_attn_weights=False)
            torch.testing.assert_close(ours.reshape(wanted[0].shape), wanted[0], atol=1e-6, rtol=0)
            x = layer(x)


@pytest.mark.parametrize("first", [True, False], ids=["batch first", "tokens first"])
def test_states_are_tokens_by_features(first: bool) -> None:
    module = encoder(batch_first=first).eval()
    x = states(1, TOKENS)
    report = attn.inspect_model(module, inputs=x if first else x.transpose(0, 1), metric="states")
    own = encoder(batch_first=True).eval()
    with torch.no_grad():
        state = x
        largest = [float(state.abs().max())]
        for layer in own.layers:
            state = layer(state)
            largest.append(float(state.abs().max()))
    found = [row.value for row in report.rows if row.metric == "max_activation"]
    assert found == pytest.approx(largest, rel=1e-5)


def test_a_mask_counts_in_the_null_too() -> None:
    module, x = encoder(batch_first=True).eval(), states(1, TOKENS)
    mask = nn.Transformer.generate_square_subsequent_mask(TOKENS)
    report = attn.inspect_model(module, inputs={"src": x, "mask": mask}, metric="entropy")
    even = sum(math.log(n) for n in range(1, TOKENS + 1)) / TOKENS
    nulls = [row.keys["uniform"] for row in report.rows if row.metric == "entropy"]
    assert nulls
    assert nulls == pytest.approx([even] * len(nulls), rel=1e-6)


def test_a_decoder_attends_to_itself_and_across() -> None:
    torch.manual_seed(0)
    layer = nn.TransformerDecoderLayer(WIDTH, HEADS, 48, batch_first=True)
    module = nn.TransformerDecoder(layer, 2).eval()
    inputs = {"tgt": states(1, TOKENS), "memory": states(1, TOKENS + 4)}
    report = attn.inspect_model(module, inputs=inputs)
    assert {(row.keys["kind"], row.layer) for row in report.rows if row.head is not None} == {
        (kind, layer) for kind in ("self", "cross") for layer in (0, 1)
    }


def test_torchs_attention_alone(tmp_path: Path) -> None:
    torch.manual_seed(0)
    module, x = nn.MultiheadAttention(WIDTH, HEADS), states(TOKENS)
    (found,) = maps_of(module, (x, x, x), tmp_path / "maps.safetensors")
    with torch.no_grad():
        _, wanted = module(x, x, x, average_attn_weights=False)
    torch.testing.assert_close(found.reshape(wanted.shape), wanted, atol=1e-6, rtol=0)


def test_several_texts_have_a_spread() -> None:
    module = Classifier(WithSdpa)
    report = attn.inspect_model(module, inputs=[IDS, {"ids": IDS[:, :6], "scale": 2.0}])
    assert [text["tokens"] for text in report.input["texts"]] == [TOKENS, 6]
    assert any(row.spread is not None for row in report.rows)


def test_the_module_is_left_as_it_was() -> None:
    module = Classifier(WithSdpa).train()
    before = {name: tensor.clone() for name, tensor in module.state_dict().items()}
    for inputs, error in (
        (IDS, nullcontext()),
        (IDS + 99, pytest.raises(InputError, match="does not run on its `inputs`")),
    ):
        with error:
            attn.inspect_model(module, inputs=inputs)
        assert module.training
        assert all(
            not part._forward_hooks and not part._forward_pre_hooks for part in module.modules()
        )
        assert all(weight.requires_grad for weight in module.parameters())
    after = module.state_dict()
    assert all(torch.equal(tensor, after[name]) for name, tensor in before.items())


def test_a_model_of_transformers_reads_what_it_is_given() -> None:
    from transformers import BertConfig, BertModel

    torch.manual_seed(0)
    model = BertModel(BertConfig(hidden_size=24, num_attention_heads=3, num_hidden_layers=2, intermediate_size=32, vocab_size=40))  # fmt: skip
    given = attn.inspect_model(model, inputs={"input_ids": IDS}, metric="entropy")
    named = attn.inspect_model(model, token_ids=",".join(map(str, IDS[0].tolist())), metric="entropy")  # fmt: skip
    assert [row.value for row in given.rows] == [row.value for row in named.rows]
    with pytest.raises(TypeError, match="'inputs'"):
        attn.dispersion(model, inputs={"input_ids": IDS}, lengths="2:8")
    with pytest.raises(TypeError, match="'inputs'"):
        attn.attribute(model, inputs={"input_ids": IDS}, token=-1)


def test_another_type_is_asked_for_by_name() -> None:
    module = Classifier(WithSdpa)
    entropies = [
        [
            row.value
            for row in attn.inspect_model(module, inputs=IDS, metric="entropy", dtype=dtype).rows
        ]
        for dtype in ("float32", "float64")
    ]
    assert entropies[0] != entropies[1]
    assert entropies[0] == pytest.approx(entropies[1], rel=1e-5)
    assert next(module.parameters()).dtype == torch.float32


class Silent(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x * 2


@pytest.mark.parametrize(
    ("module", "keywords", "error", "said"),
    [
        (encoder(), {}, UsageError, "give `inputs`, the arguments of its forward"),
        (encoder(), {"inputs": {"source": states(1, 4)}}, UsageError, "does not fit the forward of TransformerEncoder"),
        (encoder(), {"inputs": "a text"}, UsageError, "`inputs` holds a str"),
        (encoder(), {"inputs": []}, UsageError, "`inputs` is empty"),
        (encoder(batch_first=True), {"inputs": states(3, 4)}, UsageError, "holds 3 texts at once"),
        (encoder(), {"inputs": states(4, 1), "text": "x"}, UsageError, "`text` and `inputs` exclude"),
        (encoder(), {"inputs": states(4, 1), "with_random_init": True}, UsageError, "how a TransformerEncoder begins"),
        (Silent(), {"inputs": states(1, 4)}, InputError, "no attention was seen in the forward of Silent"),
        (Flex(), {"inputs": states(1, 4)}, InputError, "Flex attends by torch's flex_attention, which hands out no weights"),
    ],
)  # fmt: skip
def test_what_is_not_understood_is_refused(
    module: nn.Module, keywords: dict[str, Any], error: type[Exception], said: str
) -> None:
    with pytest.raises(error, match=said):
        attn.inspect_model(module, **keywords)


def test_other_questions_name_the_one_that_takes_any_module() -> None:
    with pytest.raises(UsageError, match="`inspect_model` takes any module of torch"):
        attn.rank_collapse(encoder())
    with pytest.raises(UsageError, match="`inputs` goes with a live module"):
        attn.inspect_model("random:bert", inputs=IDS)
