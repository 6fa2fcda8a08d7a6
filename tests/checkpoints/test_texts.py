"""What a model is shown: a batch of one, never padded, never with an id or a position that the model does not have."""

import io
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from small_checkpoints import change_config, saved
from tokenizers import Tokenizer, models, pre_tokenizers, processors

from attncli.checkpoints.inputs.texts import InputOptions, default_text, inputs_of, paragraphs
from attncli.checkpoints.loading.load import Checkpoint, load
from attncli.errors import InputError, UsageError

WORDS = ["[PAD]", "[CLS]", "[SEP]", "[UNK]", "a", "b", "c", "d", "e", "the", "of", ".", ","]


def tokenizer() -> Tokenizer:
    """Words between [CLS] and [SEP]; like a real one's file it also asks for padding and cutting."""
    made = Tokenizer(models.WordLevel({word: i for i, word in enumerate(WORDS)}, "[UNK]"))
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    made.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 1), ("[SEP]", 2)]
    )
    made.enable_padding(length=10)
    made.enable_truncation(4)
    return made


@pytest.fixture
def checkpoint(tmp_path: Path) -> Checkpoint:
    """Twelve positions, nineteen ids, thirteen words."""
    saved("BertForMaskedLM", tmp_path)
    tokenizer().save(str(tmp_path / "tokenizer.json"))
    return load(str(tmp_path))


def with_model(name: str, folder: Path, **changes: Any) -> Checkpoint:
    saved(name, folder, **changes)
    tokenizer().save(str(folder / "tokenizer.json"))
    return load(str(folder))


def test_a_text_is_a_batch_of_one_with_its_special_tokens(checkpoint: Checkpoint) -> None:
    [one, two] = inputs_of(checkpoint, InputOptions(texts=("a b c d e", "b")))
    assert one.kwargs["input_ids"].tolist() == [[1, 4, 5, 6, 7, 8, 2]]
    assert two.kwargs["input_ids"].tolist() == [[1, 5, 2]]
    assert set(one.kwargs) == {"input_ids"}
    assert (one.name, one.kind, one.tokens) == ("--text 1", "text", 7)
    assert two.labels == ("[CLS]", "b", "[SEP]")
    checkpoint.body(**one.kwargs)


def test_a_missing_mask_is_a_mask_of_ones(checkpoint: Checkpoint) -> None:
    [one] = inputs_of(checkpoint, InputOptions(texts=("a b c",)))
    ids = one.kwargs["input_ids"]
    with_mask = checkpoint.body(input_ids=ids, attention_mask=torch.ones_like(ids))
    assert torch.equal(checkpoint.body(**one.kwargs)[0], with_mask[0])


def test_the_tokenizers_of_transformers_agree(checkpoint: Checkpoint) -> None:
    from transformers import PreTrainedTokenizerFast

    theirs = PreTrainedTokenizerFast(tokenizer_object=tokenizer(), unk_token="[UNK]")
    [ours] = inputs_of(checkpoint, InputOptions(texts=("a b the c . d",)))
    expected = theirs("a b the c . d", padding=False, truncation=False)["input_ids"]
    assert ours.kwargs["input_ids"].tolist() == [expected]


def test_tokens_cuts_texts_and_keeps_special_tokens(checkpoint: Checkpoint) -> None:
    options = InputOptions(texts=("a b c d e", "b"), tokens=4)
    assert [one.kwargs["input_ids"].tolist() for one in inputs_of(checkpoint, options)] == [
        [[1, 4, 5, 2]],
        [[1, 5, 2]],
    ]


def test_a_text_longer_than_the_positions_is_refused(checkpoint: Checkpoint) -> None:
    long = " ".join("a" * 11)
    with pytest.raises(InputError, match=r"13 tokens, .* positions for 12: .*--tokens 12"):
        inputs_of(checkpoint, InputOptions(texts=(long,)))
    [cut] = inputs_of(checkpoint, InputOptions(texts=(long,), tokens=12))
    assert cut.tokens == 12
    checkpoint.body(**cut.kwargs)


def test_roberta_has_fewer_positions_than_rows(tmp_path: Path) -> None:
    checkpoint = with_model("RobertaForMaskedLM", tmp_path)
    with pytest.raises(InputError, match=r"11 tokens, .* positions for 10"):
        inputs_of(checkpoint, InputOptions(texts=(" ".join("a" * 9),)))
    [fits] = inputs_of(checkpoint, InputOptions(texts=(" ".join("a" * 8),)))
    checkpoint.body(**fits.kwargs)


def test_relative_positions_have_no_end(tmp_path: Path) -> None:
    checkpoint = with_model("T5ForConditionalGeneration", tmp_path)
    [one] = inputs_of(checkpoint, InputOptions(texts=(" ".join("a" * 600),)))
    assert one.tokens == 602


def test_ids_beyond_the_vocabulary_are_refused(tmp_path: Path) -> None:
    checkpoint = with_model("BertForMaskedLM", tmp_path, vocab_size=7)
    with pytest.raises(InputError, match=r"token id 8, the model knows 0 … 6"):
        inputs_of(checkpoint, InputOptions(texts=("a e",)))
    for text, outside in (("1,7", 7), ("-1", -1)):
        with pytest.raises(InputError, match=f"token id {outside}"):
            inputs_of(checkpoint, InputOptions(token_ids=text))


def test_token_ids_need_no_tokenizer(tmp_path: Path) -> None:
    saved("GPT2LMHeadModel", tmp_path)
    checkpoint = load(str(tmp_path))
    [one] = inputs_of(checkpoint, InputOptions(token_ids="3, 1,4", tokens=2))
    assert one.kwargs["input_ids"].tolist() == [[3, 1]]
    assert one.labels == ("3", "1")
    with pytest.raises(InputError, match="no tokenizer: give --token-ids or --random-tokens"):
        inputs_of(checkpoint, InputOptions())
    for wrong in ("", "1,,2", "a", "1.5"):
        with pytest.raises(UsageError, match="101,2023,102"):
            inputs_of(checkpoint, InputOptions(token_ids=wrong))


def test_random_tokens_follow_the_seed_and_are_never_special(tmp_path: Path) -> None:
    saved("GPT2LMHeadModel", tmp_path, eos_token_id=5)
    checkpoint = load(str(tmp_path))
    options = InputOptions(random_tokens=9, samples=20, seed=3)
    found = [one.kwargs["input_ids"] for one in inputs_of(checkpoint, options)]
    assert {tuple(ids.shape) for ids in found} == {(1, 9)}
    again = [one.kwargs["input_ids"] for one in inputs_of(checkpoint, options)]
    assert all(torch.equal(one, two) for one, two in zip(found, again, strict=True))
    assert len({tuple(ids[0].tolist()) for ids in found}) == 20
    drawn = set(torch.cat(found).flatten().tolist())
    assert drawn == set(range(19)) - {0, 5}
    with pytest.raises(InputError, match="positions for 12"):
        inputs_of(checkpoint, InputOptions(random_tokens=13))


def test_a_random_model_reads_random_tokens() -> None:
    checkpoint = load("random:bert?tiny")
    [one] = inputs_of(checkpoint, InputOptions())
    assert one.kind == "random tokens"
    assert one.tokens > 1
    checkpoint.body(**one.kwargs)
    with pytest.raises(InputError, match="random model has no tokenizer"):
        inputs_of(checkpoint, InputOptions(texts=("a",)))


def test_images_are_random_and_say_so(tmp_path: Path) -> None:
    saved("ViTModel", tmp_path)
    checkpoint = load(str(tmp_path))
    one, two = inputs_of(checkpoint, InputOptions(samples=2))
    assert one.kind == "random pixel_values"
    assert one.kwargs["pixel_values"].shape == (1, 3, 8, 8)
    assert not torch.equal(one.kwargs["pixel_values"], two.kwargs["pixel_values"])
    checkpoint.body(**one.kwargs)
    with pytest.raises(UsageError, match="reads pixel_values, not text"):
        inputs_of(checkpoint, InputOptions(texts=("a",)))


SHIFTED = {
    "T5ForConditionalGeneration": [0, 1, 4, 5],
    "BartForConditionalGeneration": [2, 1, 4, 5],
    "MBartForConditionalGeneration": [2, 1, 4, 5],
}


@pytest.mark.parametrize("name", SHIFTED)
def test_decoders_read_the_shifted_text(name: str, tmp_path: Path) -> None:
    """T5 and BART put their start before it; mBART turns its last token, the language, to the front."""
    checkpoint = with_model(name, tmp_path)
    [one] = inputs_of(checkpoint, InputOptions(texts=("a b",)))
    assert one.kwargs["input_ids"].tolist() == [[1, 4, 5, 2]]
    assert one.kwargs["decoder_input_ids"].tolist() == [SHIFTED[name]]
    labels = one.kwargs["input_ids"]
    theirs = checkpoint.model(input_ids=labels, labels=labels).logits
    ours = checkpoint.model(**one.kwargs).logits
    torch.testing.assert_close(ours, theirs)


def test_a_decoder_without_a_start_is_refused(tmp_path: Path) -> None:
    with_model("T5ForConditionalGeneration", tmp_path)
    change_config(tmp_path, decoder_start_token_id=None)
    with pytest.raises(InputError, match="decoder_start_token_id"):
        inputs_of(load(str(tmp_path)), InputOptions(texts=("a",)))


def test_text_files_are_split_at_blank_lines(checkpoint: Checkpoint, tmp_path: Path) -> None:
    path = tmp_path / "texts.txt"
    path.write_text("\n a b\nc\n  \n\nd\n")
    found = inputs_of(checkpoint, InputOptions(text_file=str(path), texts=("e",)))
    assert [one.labels[1:-1] for one in found] == [("e",), ("a", "b", "c"), ("d",)]
    assert found[2].name == f"{path} 2"
    assert paragraphs("one\ntwo", "x") == ["one\ntwo"]


def test_standard_input_is_a_file_too(
    checkpoint: Checkpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(b"a\n\nb")))
    assert len(inputs_of(checkpoint, InputOptions(text_file="-"))) == 2


@pytest.mark.parametrize(
    ("content", "says"), [(b"", "holds no text"), (b" \n", "no text"), (b"\xff\xff", "UTF-8")]
)
def test_text_files_that_hold_no_text(
    content: bytes, says: str, checkpoint: Checkpoint, tmp_path: Path
) -> None:
    (tmp_path / "t").write_bytes(content)
    with pytest.raises(InputError, match=says):
        inputs_of(checkpoint, InputOptions(text_file=str(tmp_path / "t")))
    with pytest.raises(InputError, match="cannot be read"):
        inputs_of(checkpoint, InputOptions(text_file=str(tmp_path / "none")))


def test_the_default_text_ships(tmp_path: Path) -> None:
    words = default_text().split()
    assert 150 < len(words) < 300
    checkpoint = with_model("T5ForConditionalGeneration", tmp_path)
    with pytest.raises(InputError, match="default text"):  # this tokenizer knows five letters
        inputs_of(checkpoint, InputOptions())


def test_a_tokenizer_that_knows_nothing_of_the_text_is_refused(checkpoint: Checkpoint) -> None:
    with pytest.raises(InputError, match="knows 0 of the 3 words of --text 1"):
        inputs_of(checkpoint, InputOptions(texts=("x y z",)))
    with pytest.raises(InputError, match="knows 0 of the 1 words"):
        inputs_of(checkpoint, InputOptions(texts=("x",)))
    assert inputs_of(checkpoint, InputOptions(texts=("a b x",)))[0].labels[3] == "[UNK]"


def test_a_vocabulary_that_transformers_ignores_is_noticed(tmp_path: Path) -> None:
    """vocab.txt under model type albert (rxnmapper): transformers makes a tokenizer of five special tokens."""
    saved("BertForMaskedLM", tmp_path)
    change_config(tmp_path, model_type="albert")
    (tmp_path / "vocab.txt").write_text("\n".join(WORDS))
    (tmp_path / "tokenizer_config.json").write_text("{}")
    checkpoint = Checkpoint(model=load("random:albert?tiny").model, identity={}, folder=tmp_path)
    with pytest.raises(InputError, match="--token-ids or --random-tokens"):
        inputs_of(checkpoint, InputOptions(texts=("a",)))


def test_word_piece_vocabularies_are_read_by_transformers(tmp_path: Path) -> None:
    saved("BertForMaskedLM", tmp_path)
    words = [*WORDS[:4], "[MASK]", "a", "b", "##c"]
    (tmp_path / "vocab.txt").write_text("\n".join(words) + "\n")
    (tmp_path / "tokenizer_config.json").write_text('{"tokenizer_class": "BertTokenizer"}')
    options = InputOptions(texts=("A bc bc bc",), tokens=5)
    [one] = inputs_of(load(str(tmp_path)), options)
    assert one.labels == ("[CLS]", "a", "b", "##c", "[SEP]")
    assert one.kwargs["input_ids"].tolist() == [[1, 5, 6, 7, 2]]


@pytest.mark.parametrize("content", ["", "{", "{}", "[]", '{"model": {"type": "WordLevel"}}'])
def test_broken_tokenizers(content: str, checkpoint: Checkpoint, tmp_path: Path) -> None:
    (tmp_path / "tokenizer.json").write_text(content)
    with pytest.raises(InputError, match=r"tokenizer\.json is not understood") as refused:
        inputs_of(checkpoint, InputOptions(texts=("a",)))
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    "options",
    [
        {"texts": ("a",), "token_ids": "1"},
        {"texts": ("a",), "random_tokens": 3},
        {"token_ids": "1", "random_tokens": 3},
        {"tokens": 0},
        {"random_tokens": 0},
        {"samples": 0},
    ],
)
def test_options_that_make_no_sense(options: dict[str, Any], checkpoint: Checkpoint) -> None:
    with pytest.raises(UsageError):
        inputs_of(checkpoint, InputOptions(**options))


def test_too_few_tokens_for_the_special_ones(checkpoint: Checkpoint) -> None:
    """Two special tokens do not fit into one."""
    with pytest.raises(UsageError, match="no room"):
        inputs_of(checkpoint, InputOptions(texts=("a b",), tokens=1))


def test_an_empty_text(checkpoint: Checkpoint) -> None:
    assert inputs_of(checkpoint, InputOptions(texts=("",)))[0].labels == ("[CLS]", "[SEP]")
