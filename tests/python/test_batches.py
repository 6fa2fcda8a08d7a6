"""A batch of `inputs` is so many texts, and padding is none: the same numbers as of each text alone."""

from typing import Any

import numpy as np
import pytest
import torch
from small_checkpoints import model_of
from torch import Tensor
from transformers import PreTrainedModel, Wav2Vec2Config, Wav2Vec2Model

import attncli as attn
from attncli.errors import UsageError

SHORT, LONG = [3, 5, 7], [2, 4, 6, 8, 10]
IDS = torch.tensor([[3, 5, 7, 9, 11], LONG])
TEXTS = [torch.tensor([SHORT]), torch.tensor([LONG])]
Numbers = list[tuple[Any, ...]]


def numbers(model: PreTrainedModel, inputs: Any, **asked: Any) -> Numbers:
    """All that could differ, and how long the texts were taken to be."""
    report = attn.inspect_model(model, inputs=inputs, metric="attention,states", **asked)
    lengths = [text["tokens"] for text in report.input["texts"]]
    return [(row.metric, row.layer, row.head, row.value, row.spread, row.n, row.keys.get("uniform")) for row in report.rows] + [tuple(lengths)]  # fmt: skip


def padded(left: bool, **more: Tensor) -> dict[str, Tensor]:
    """As a tokenizer gives it; what stands in the padding is what would be seen if it counted."""
    row, mask = ([9, 9, *SHORT], [0, 0, 1, 1, 1]) if left else ([*SHORT, 9, 9], [1, 1, 1, 0, 0])
    ids = torch.tensor([row, LONG])
    return {"input_ids": ids, "attention_mask": torch.tensor([mask, [1] * 5]), **more}


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["GPT2LMHeadModel", "BertModel", "RobertaForMaskedLM"])
@pytest.mark.parametrize("left", [False, True], ids=["right", "left"])
def test_each_row_is_a_text_without_its_padding(kind: str, left: bool) -> None:
    model = model_of(kind, **({"max_position_embeddings": 40} if "Roberta" in kind else {}))
    alone = numbers(model, TEXTS)
    assert alone[-1] == (3, 5)
    batch = padded(left, token_type_ids=torch.zeros(2, 5, dtype=torch.long)) if "GPT" not in kind else padded(left)  # fmt: skip
    assert numbers(model, batch) == alone
    assert numbers(model, [{name: each[:1] for name, each in batch.items()}, TEXTS[1]]) == alone
    arrays = {name: each.numpy() for name, each in batch.items()}
    assert numbers(model, arrays) == alone
    assert numbers(model, {name: each.tolist() for name, each in batch.items()}) == alone


@pytest.mark.slow
def test_rows_without_padding_are_texts_in_every_form() -> None:
    model = model_of("GPT2LMHeadModel")
    both = numbers(model, [IDS[:1], IDS[1:]])
    for form in (IDS, IDS.numpy(), IDS.tolist(), (IDS,), {"input_ids": IDS}, [IDS], {"input_ids": IDS, "position_ids": torch.arange(5)[None]}):  # fmt: skip
        assert numbers(model, form) == both
    one = numbers(model, IDS[:1])
    for form in (IDS[0], IDS[0].numpy(), IDS[0].tolist(), [IDS[0]], {"input_ids": IDS[0], "attention_mask": torch.ones(5)}):  # fmt: skip
        assert numbers(model, form) == one
    words = model.get_input_embeddings()(IDS).detach()
    assert numbers(model, {"inputs_embeds": words}) == both


@pytest.mark.slow
@pytest.mark.parametrize("ask", [attn.rank_collapse, attn.paths], ids=["rank_collapse", "paths"])
def test_other_questions_read_inputs_too(ask: Any) -> None:
    model = model_of("GPT2LMHeadModel")
    given = ask(model, inputs=padded(left=False))
    named = ask(model, token_ids=["3,5,7", "2,4,6,8,10"])
    assert given.rows == named.rows
    marked = {"input_ids": IDS[:1], "attention_mask": torch.ones(1, 5)}
    if ask is attn.paths:  # which repeats the last token where nothing goes along the tokens
        heard = [
            [(row.metric, row.value) for row in attn.sensitivity(model, **each).rows]
            for each in ({"inputs": marked}, {"token_ids": "3,5,7,9,11"})
        ]
        assert heard[0] == heard[1]
    with pytest.raises(UsageError, match="`inputs` goes with a live module"):
        ask("random:gpt2", inputs=IDS)
    with pytest.raises(UsageError, match="`token_ids` and `inputs` exclude"):
        ask(model, inputs=IDS, token_ids="1,2")


@pytest.mark.slow
def test_an_encoder_and_its_decoder_are_cut_by_their_own_masks() -> None:
    model = model_of("T5ForConditionalGeneration")
    batch = padded(left=False)
    batch["decoder_input_ids"] = torch.tensor([[1, 2, 3, 9, 9], LONG])
    batch["decoder_attention_mask"] = batch["attention_mask"]
    rows = [{"input_ids": one, "decoder_input_ids": other} for one, other in zip(TEXTS, [torch.tensor([[1, 2, 3]]), TEXTS[1]], strict=True)]  # fmt: skip
    assert numbers(model, batch) == numbers(model, rows)


@pytest.mark.slow
def test_images_and_sounds_are_taken_apart_too() -> None:
    images = torch.randn(2, 3, 8, 8, generator=torch.Generator().manual_seed(0))
    model = model_of("ViTModel")
    assert numbers(model, images) == numbers(model, [images[:1], images[1:]])
    with pytest.raises(UsageError, match=r"pixel_values of the shape .* has no axis of texts"):
        attn.inspect_model(model, inputs=images[0])
    torch.manual_seed(0)
    listener = Wav2Vec2Model(Wav2Vec2Config(hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=24, conv_dim=(8, 8), conv_stride=(5, 2), conv_kernel=(10, 3), num_conv_pos_embeddings=4, num_conv_pos_embedding_groups=2, num_feat_extract_layers=2, feat_extract_norm="layer", do_stable_layer_norm=True))  # fmt: skip
    sounds = torch.randn(2, 200, generator=torch.Generator().manual_seed(0))
    mask = torch.ones(2, 200, dtype=torch.long)
    mask[0, 120:] = 0
    found = numbers(listener, {"input_values": sounds, "attention_mask": mask})
    assert found == numbers(listener, [{"input_values": sounds[:1, :120], "attention_mask": mask[:1, :120]}, {"input_values": sounds[1:], "attention_mask": mask[1:]}])  # fmt: skip
    assert len(set(found[-1])) == 2


def test_a_shuffled_text_keeps_its_places() -> None:
    model = model_of("GPT2LMHeadModel")
    plain = attn.inspect_model(model, inputs=IDS[:1], with_shuffled_text=True)
    placed = attn.inspect_model(model, inputs={"input_ids": IDS[:1], "position_ids": torch.arange(5)[None], "use_cache": False}, with_shuffled_text=True)  # fmt: skip
    assert plain.rows == placed.rows


MASK = torch.tensor([[1, 1, 0, 1, 1], [1] * 5])
REFUSED = {
    "holes": ({"input_ids": IDS, "attention_mask": MASK}, "leaves out tokens between others"),
    "nothing left": ({"input_ids": IDS, "attention_mask": MASK * 0}, "leaves out all of it"),
    "numbers": ({"input_ids": IDS, "attention_mask": MASK * 2.0}, "must hold 1 for tokens and 0"),
    "of pairs": ({"input_ids": IDS, "attention_mask": torch.ones(2, 1, 5, 5)}, "which part of attention_mask"),
    "of three": ({"input_ids": IDS, "position_ids": torch.ones(3, 2, 5, dtype=torch.long)}, "which part of position_ids"),
    "one for two": ({"input_ids": IDS, "token_type_ids": torch.zeros(1, 5, dtype=torch.long)}, "which part of token_type_ids"),
    "lengths": ({"input_ids": [SHORT, LONG]}, "lists of several lengths"),
    "empty": (IDS[:0], "holds no text"),
    "unmarked": (torch.tensor([[*SHORT, 1, 1], LONG]), "begins or ends with the padding token 1"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_taken_apart_is_refused_by_name(name: str) -> None:
    given, said = REFUSED[name]
    with pytest.raises(UsageError, match=said):
        attn.inspect_model(model_of("RobertaForMaskedLM"), inputs=given)


def test_whatever_else_goes_along_padded_tokens_is_refused_by_name() -> None:
    model = model_of("BertModel")
    states = {"encoder_hidden_states": torch.ones(2, 5, 16)}
    with pytest.raises(
        UsageError, match=r"whether encoder_hidden_states, .* goes along the tokens"
    ):
        attn.inspect_model(model, inputs=padded(left=True, **states))


class Mixer(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.attention = torch.nn.MultiheadAttention(8, 2, batch_first=True)

    def forward(self, x: Tensor, bias: Tensor, key_padding_mask: Tensor | None = None) -> Tensor:
        x = x + bias
        found: Tensor = self.attention(x, x, x, key_padding_mask=key_padding_mask)[0]
        return found


def test_a_batch_of_another_module_is_seen_beside_what_has_one_row() -> None:
    """Positions that are shared by all texts make no single text of them."""
    given = {"x": torch.randn(3, 4, 8), "bias": torch.randn(1, 4, 8)}
    with pytest.raises(UsageError, match="holds 3 texts at once"):
        attn.inspect_model(Mixer(), inputs=given)
    mask = torch.tensor([[False, False, False, True]])
    one = {"x": given["x"][:1], "bias": given["bias"]}
    assert attn.inspect_model(Mixer(), inputs=one).rows
    with pytest.raises(UsageError, match="key_padding_mask marks padding"):
        attn.inspect_model(Mixer(), inputs={**one, "key_padding_mask": mask})


def test_numpy_of_another_module() -> None:
    x, bias = np.ones((1, 4, 8), np.float32), np.zeros((1, 4, 8), np.float32)
    assert attn.inspect_model(Mixer(), inputs=(x, bias)).rows
