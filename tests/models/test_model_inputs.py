"""What a model is shown: a batch of one, never padded, never with an id or a position that the model does not have."""

import csv
import io
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from commands import attn
from small_checkpoints import change_config, saved
from tokenizers import Tokenizer, models, pre_tokenizers, processors

from attncli.errors import InputError, UsageError
from attncli.models.inputs.input_options import RequestedInput
from attncli.models.inputs.requested_inputs import make_model_inputs
from attncli.models.inputs.text_files import MARKED_UP, READERS, read_texts_from_file
from attncli.models.inputs.text_inputs import read_default_text
from attncli.models.loading.load_model import load_model
from attncli.models.loading.loaded_model import LoadedModel

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
def checkpoint(tmp_path: Path) -> LoadedModel:
    """Twelve positions, nineteen ids, thirteen words."""
    saved("BertForMaskedLM", tmp_path)
    tokenizer().save(str(tmp_path / "tokenizer.json"))
    return load_model(str(tmp_path))


def with_model(name: str, folder: Path, **changes: Any) -> LoadedModel:
    saved(name, folder, **changes)
    tokenizer().save(str(folder / "tokenizer.json"))
    return load_model(str(folder))


def test_a_text_is_a_batch_of_one_with_its_special_tokens(checkpoint: LoadedModel) -> None:
    [one, two] = make_model_inputs(checkpoint, RequestedInput(texts=("a b c d e", "b")))
    assert one.kwargs["input_ids"].tolist() == [[1, 4, 5, 6, 7, 8, 2]]
    assert two.kwargs["input_ids"].tolist() == [[1, 5, 2]]
    assert set(one.kwargs) == {"input_ids"}
    assert (one.name, one.kind, one.tokens) == ("text 1", "text", 7)
    assert two.labels == ("[CLS]", "b", "[SEP]")
    checkpoint.model_without_head(**one.kwargs)


def test_a_missing_mask_is_a_mask_of_ones(checkpoint: LoadedModel) -> None:
    [one] = make_model_inputs(checkpoint, RequestedInput(texts=("a b c",)))
    ids = one.kwargs["input_ids"]
    with_mask = checkpoint.model_without_head(input_ids=ids, attention_mask=torch.ones_like(ids))
    assert torch.equal(checkpoint.model_without_head(**one.kwargs)[0], with_mask[0])


def test_the_tokenizers_of_transformers_agree(checkpoint: LoadedModel) -> None:
    from transformers import PreTrainedTokenizerFast

    theirs = PreTrainedTokenizerFast(tokenizer_object=tokenizer(), unk_token="[UNK]")
    [ours] = make_model_inputs(checkpoint, RequestedInput(texts=("a b the c . d",)))
    expected = theirs("a b the c . d", padding=False, truncation=False)["input_ids"]
    assert ours.kwargs["input_ids"].tolist() == [expected]


def test_tokens_cuts_texts_and_keeps_special_tokens(checkpoint: LoadedModel) -> None:
    options = RequestedInput(texts=("a b c d e", "b"), tokens=4)
    assert [one.kwargs["input_ids"].tolist() for one in make_model_inputs(checkpoint, options)] == [
        [[1, 4, 5, 2]],
        [[1, 5, 2]],
    ]


def test_a_text_longer_than_the_positions_is_refused(checkpoint: LoadedModel) -> None:
    long = " ".join("a" * 11)
    with pytest.raises(InputError, match=r"13 tokens, .* positions for 12: .*`tokens=12`"):
        make_model_inputs(checkpoint, RequestedInput(texts=(long,)))
    [cut] = make_model_inputs(checkpoint, RequestedInput(texts=(long,), tokens=12))
    assert cut.tokens == 12
    checkpoint.model_without_head(**cut.kwargs)


def test_roberta_has_fewer_positions_than_rows(tmp_path: Path) -> None:
    checkpoint = with_model("RobertaForMaskedLM", tmp_path)
    with pytest.raises(InputError, match=r"11 tokens, .* positions for 10"):
        make_model_inputs(checkpoint, RequestedInput(texts=(" ".join("a" * 9),)))
    [fits] = make_model_inputs(checkpoint, RequestedInput(texts=(" ".join("a" * 8),)))
    checkpoint.model_without_head(**fits.kwargs)


def test_relative_positions_have_no_end(tmp_path: Path) -> None:
    checkpoint = with_model("T5ForConditionalGeneration", tmp_path)
    [one] = make_model_inputs(checkpoint, RequestedInput(texts=(" ".join("a" * 600),)))
    assert one.tokens == 602


def test_ids_beyond_the_vocabulary_are_refused(tmp_path: Path) -> None:
    checkpoint = with_model("BertForMaskedLM", tmp_path, vocab_size=7)
    with pytest.raises(InputError, match=r"token id 8, the model knows 0 … 6"):
        make_model_inputs(checkpoint, RequestedInput(texts=("a e",)))
    for text, outside in (("1,7", 7), ("-1", -1)):
        with pytest.raises(InputError, match=f"token id {outside}"):
            make_model_inputs(checkpoint, RequestedInput(token_ids=(text,)))


def test_token_ids_need_no_tokenizer(tmp_path: Path) -> None:
    saved("GPT2LMHeadModel", tmp_path)
    checkpoint = load_model(str(tmp_path))
    [one] = make_model_inputs(checkpoint, RequestedInput(token_ids=("3, 1,4",), tokens=2))
    assert one.kwargs["input_ids"].tolist() == [[3, 1]]
    assert one.labels == ("3", "1")
    with pytest.raises(InputError, match="no tokenizer: give `token_ids`, or random tokens"):
        make_model_inputs(checkpoint, RequestedInput())
    for wrong in ("", "1,,2", "a", "1.5", "1_0", "\u0661", "1;2"):
        with pytest.raises(UsageError, match="101,2023,102"):
            make_model_inputs(checkpoint, RequestedInput(token_ids=(wrong,)))


def test_random_tokens_follow_the_seed_and_are_never_special(tmp_path: Path) -> None:
    saved("GPT2LMHeadModel", tmp_path, eos_token_id=5)
    checkpoint = load_model(str(tmp_path))
    options = RequestedInput(random_tokens=9, samples=20, seed=3)
    found = [one.kwargs["input_ids"] for one in make_model_inputs(checkpoint, options)]
    assert {tuple(ids.shape) for ids in found} == {(1, 9)}
    again = [one.kwargs["input_ids"] for one in make_model_inputs(checkpoint, options)]
    assert all(torch.equal(one, two) for one, two in zip(found, again, strict=True))
    assert len({tuple(ids[0].tolist()) for ids in found}) == 20
    drawn = set(torch.cat(found).flatten().tolist())
    assert drawn == set(range(19)) - {0, 5}
    with pytest.raises(InputError, match="positions for 12"):
        make_model_inputs(checkpoint, RequestedInput(random_tokens=13))


def test_a_random_model_reads_random_tokens() -> None:
    checkpoint = load_model("random:bert?tiny")
    [one] = make_model_inputs(checkpoint, RequestedInput())
    assert one.kind == "random tokens"
    assert one.tokens > 1
    checkpoint.model_without_head(**one.kwargs)
    with pytest.raises(InputError, match="random model has no tokenizer"):
        make_model_inputs(checkpoint, RequestedInput(texts=("a",)))


def test_images_are_random_and_say_so(tmp_path: Path) -> None:
    saved("ViTModel", tmp_path)
    checkpoint = load_model(str(tmp_path))
    one, two = make_model_inputs(checkpoint, RequestedInput(samples=2))
    assert one.kind == "random pixel_values"
    assert one.kwargs["pixel_values"].shape == (1, 3, 8, 8)
    assert not torch.equal(one.kwargs["pixel_values"], two.kwargs["pixel_values"])
    checkpoint.model_without_head(**one.kwargs)
    with pytest.raises(UsageError, match="reads pixel_values, not text"):
        make_model_inputs(checkpoint, RequestedInput(texts=("a",)))


SHIFTED = {
    "T5ForConditionalGeneration": [0, 1, 4, 5],
    "BartForConditionalGeneration": [2, 1, 4, 5],
    "MBartForConditionalGeneration": [2, 1, 4, 5],
}


@pytest.mark.parametrize("name", SHIFTED)
def test_decoders_read_the_shifted_text(name: str, tmp_path: Path) -> None:
    """T5 and BART put their start before it; mBART turns its last token, the language, to the front."""
    checkpoint = with_model(name, tmp_path)
    [one] = make_model_inputs(checkpoint, RequestedInput(texts=("a b",)))
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
        make_model_inputs(load_model(str(tmp_path)), RequestedInput(texts=("a",)))


def test_text_files_are_split_at_blank_lines(checkpoint: LoadedModel, tmp_path: Path) -> None:
    path = tmp_path / "texts.txt"
    path.write_text("\n a b\nc\n  \n\nd\n")
    found = make_model_inputs(checkpoint, RequestedInput(text_file=str(path), texts=("e",)))
    assert [one.labels[1:-1] for one in found] == [("e",), ("a", "b", "c"), ("d",)]
    assert found[2].name == f"{path} 2"
    path.write_text("one\ntwo")
    assert read_texts_from_file(str(path)) == ["one\ntwo"]


def test_standard_input_is_a_file_too(
    checkpoint: LoadedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(b"a\n\nb")))
    assert len(make_model_inputs(checkpoint, RequestedInput(text_file="-"))) == 2


@pytest.mark.parametrize(
    ("content", "says"), [(b"", "holds no text"), (b" \n", "no text"), (b"\xff\xff", "UTF-8")]
)
def test_text_files_that_hold_no_text(
    content: bytes, says: str, checkpoint: LoadedModel, tmp_path: Path
) -> None:
    (tmp_path / "t").write_bytes(content)
    with pytest.raises(InputError, match=says):
        make_model_inputs(checkpoint, RequestedInput(text_file=str(tmp_path / "t")))
    with pytest.raises(InputError, match="cannot be read"):
        make_model_inputs(checkpoint, RequestedInput(text_file=str(tmp_path / "none")))


def test_the_default_text_ships(tmp_path: Path) -> None:
    words = read_default_text().split()
    assert 150 < len(words) < 300
    checkpoint = with_model("T5ForConditionalGeneration", tmp_path)
    with pytest.raises(InputError, match="default text"):  # this tokenizer knows five letters
        make_model_inputs(checkpoint, RequestedInput())


def test_a_tokenizer_that_knows_nothing_of_the_text_is_refused(checkpoint: LoadedModel) -> None:
    with pytest.raises(InputError, match="knows 0 of the 3 words of text 1"):
        make_model_inputs(checkpoint, RequestedInput(texts=("x y z",)))
    with pytest.raises(InputError, match="knows 0 of the 1 words"):
        make_model_inputs(checkpoint, RequestedInput(texts=("x",)))
    assert make_model_inputs(checkpoint, RequestedInput(texts=("a b x",)))[0].labels[3] == "[UNK]"


def test_a_vocabulary_that_transformers_ignores_is_noticed(tmp_path: Path) -> None:
    """vocab.txt under model type albert (rxnmapper): transformers makes a tokenizer of five special tokens."""
    saved("BertForMaskedLM", tmp_path)
    change_config(tmp_path, model_type="albert")
    (tmp_path / "vocab.txt").write_text("\n".join(WORDS))
    (tmp_path / "tokenizer_config.json").write_text("{}")
    checkpoint = LoadedModel(
        model=load_model("random:albert?tiny").model, identity={}, folder=tmp_path
    )
    with pytest.raises(InputError, match="`token_ids`, or random tokens"):
        make_model_inputs(checkpoint, RequestedInput(texts=("a",)))


def test_word_piece_vocabularies_are_read_by_transformers(tmp_path: Path) -> None:
    saved("BertForMaskedLM", tmp_path)
    words = [*WORDS[:4], "[MASK]", "a", "b", "##c"]
    (tmp_path / "vocab.txt").write_text("\n".join(words) + "\n")
    (tmp_path / "tokenizer_config.json").write_text('{"tokenizer_class": "BertTokenizer"}')
    options = RequestedInput(texts=("A bc bc bc",), tokens=5)
    [one] = make_model_inputs(load_model(str(tmp_path)), options)
    assert one.labels == ("[CLS]", "a", "b", "##c", "[SEP]")
    assert one.kwargs["input_ids"].tolist() == [[1, 5, 6, 7, 2]]


@pytest.mark.parametrize("content", ["", "{", "{}", "[]", '{"model": {"type": "WordLevel"}}'])
def test_broken_tokenizers(content: str, checkpoint: LoadedModel, tmp_path: Path) -> None:
    (tmp_path / "tokenizer.json").write_text(content)
    with pytest.raises(InputError, match=r"tokenizer\.json is not understood") as refused:
        make_model_inputs(checkpoint, RequestedInput(texts=("a",)))
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    "options",
    [
        {"tokens": 0},
        {"random_tokens": 0},
        {"samples": 0},
    ],
)
def test_options_that_make_no_sense(options: dict[str, Any], checkpoint: LoadedModel) -> None:
    with pytest.raises(UsageError):
        make_model_inputs(checkpoint, RequestedInput(**options))


@pytest.mark.parametrize(
    "line",
    [
        ("--text", "a", "--token-ids", "1"),
        ("--text", "a", "--random-tokens", "3"),
        ("--token-ids", "1", "--random-tokens", "3"),
        ("--text-file", "a.txt", "--random-tokens", "3"),
    ],
)
def test_two_kinds_of_input_exclude_each_other(line: tuple[str, ...]) -> None:
    outcome = attn("inspect-model", "random:bert?tiny", *line)
    assert (outcome.code, outcome.out) == (2, "")
    assert all(option in outcome.err for option in line[::2])


@pytest.mark.parametrize("tokens", [1, 2])
def test_too_few_tokens_for_the_special_ones(tokens: int, checkpoint: LoadedModel) -> None:
    """Two special tokens do not fit into one, and beside them there must be one of the text."""
    with pytest.raises(UsageError, match="no room"):
        make_model_inputs(checkpoint, RequestedInput(texts=("a b",), tokens=tokens))


@pytest.mark.parametrize("text", ["", " ", "\n\t"])
def test_a_text_of_special_tokens_alone_is_refused(text: str, checkpoint: LoadedModel, tmp_path: Path) -> None:  # fmt: skip
    """Also where it is one of several, and where it stands in a file."""
    for texts in ((text,), ("a b", text)):
        with pytest.raises(InputError, match=rf"text {len(texts)} is empty, but for special"):
            make_model_inputs(checkpoint, RequestedInput(texts=texts))
    file = tmp_path / "texts.jsonl"
    file.write_text(f'"a b"\n{json.dumps(text)}\n')
    with pytest.raises(InputError, match=r"texts\.jsonl 2 is empty"):
        make_model_inputs(checkpoint, RequestedInput(text_file=str(file)))


TEXTS = ["a b", 'c "d", {e}', "the\nof", "a\n\nb"]
"""With everything in it that JSON and tables write otherwise."""


def written(path: Path) -> None:
    if path.suffix == ".json":
        path.write_text(json.dumps([TEXTS[0], *({"id": 3, "text": text} for text in TEXTS[1:])]))
    elif path.suffix in (".jsonl", ".ndjson"):
        entries = [json.dumps(TEXTS[0]), *(json.dumps({"text": text}) for text in TEXTS[1:])]
        path.write_text("\n\n".join(entries))
    else:
        with path.open("w", newline="") as file:
            table = csv.writer(file, delimiter="\t" if path.suffix == ".tsv" else ",")
            table.writerows([("id", "text"), *enumerate(TEXTS)])


@pytest.mark.parametrize("ending", [*READERS, ".CSV", ".JSONL"])
@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
def test_texts_of_tables_and_json_are_read_without_their_syntax(
    ending: str, mark: bytes, checkpoint: LoadedModel, tmp_path: Path
) -> None:
    """Some programs begin a file with a mark of its byte order, which is no text either."""
    path = tmp_path / f"texts{ending}"
    written(path.with_suffix(ending.lower()))
    path.write_bytes(mark + path.with_suffix(ending.lower()).read_bytes())
    assert read_texts_from_file(str(path)) == TEXTS
    found = make_model_inputs(checkpoint, RequestedInput(text_file=str(path), tokens=6))
    given = make_model_inputs(checkpoint, RequestedInput(texts=tuple(TEXTS), tokens=6))
    assert [one.labels for one in found] == [one.labels for one in given]


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("x.jsonl", "a b\n", r"x.jsonl, line 1 cannot be read as JSON: .* plain text goes into .txt"),
        ("x.jsonl", '"a"\n{"prompt": "b"}\n', r"line 2 has no text: write"),
        ("x.jsonl", '"a"\n[1, 2]\n', "line 2 has no text"),
        ("x.jsonl", "[" * 100_000, "line 1 cannot be read as JSON"),
        ("x.jsonl", "\n \n", "holds no text"),
        ("x.json", "[]", "holds no text"),
        ("x.json", '{"text": 3}', "entry 1 has no text"),
        ("x.csv", "a,b\n1,2\n", "no column 'text' in its first line"),
        ("x.csv", "", "no column 'text'"),
        ("x.csv", "id,text\n1\n", "line 2 has no text"),
        ("x.csv", 'text\n"a"b\n', "cannot be read as a table"),
        *((f"x{ending}", "<p>a b</p>", "is marked up: take the texts out first") for ending in MARKED_UP),
    ],
)  # fmt: skip
def test_what_is_no_text_is_refused_by_name(
    name: str, content: str, says: str, checkpoint: LoadedModel, tmp_path: Path
) -> None:
    (tmp_path / name).write_text(content)
    with pytest.raises(InputError, match=says) as refused:
        make_model_inputs(checkpoint, RequestedInput(text_file=str(tmp_path / name)))
    assert name in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.slow
def test_a_text_in_a_table_may_be_long(checkpoint: LoadedModel, tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text(f"text\n{'a ' * 200_000}\n")
    [one] = make_model_inputs(
        checkpoint, RequestedInput(text_file=str(tmp_path / "x.csv"), tokens=5)
    )
    assert one.tokens == 5


LISTS = [[1, 4, 5, 2], [3], [7, 7]]


@pytest.mark.parametrize(
    "content",
    [
        json.dumps(LISTS),
        "\n".join(map(json.dumps, LISTS)),
        json.dumps(LISTS, indent=1),
        "1,4,5,2\n\n3\n7, 7\n",
        "1 4 5 2\r\n3\r\n7\t7",
        "\ufeff1 4 5 2\n[3]\n7,7",
    ],
)
def test_token_ids_of_a_file_are_one_text_each(
    content: str, checkpoint: LoadedModel, tmp_path: Path
) -> None:
    path = tmp_path / "ids"
    path.write_text(content, encoding="utf-8", newline="")
    found = make_model_inputs(checkpoint, RequestedInput(token_ids=("2,3", f"@{path}")))
    assert [one.kwargs["input_ids"][0].tolist() for one in found] == [[2, 3], *LISTS]
    assert [one.name for one in found] == ["token_ids 1", *(f"{path} {n}" for n in (1, 2, 3))]
    cut = make_model_inputs(checkpoint, RequestedInput(token_ids=(f"@{path}",), tokens=2))
    assert [one.tokens for one in cut] == [2, 1, 2]


def test_one_list_in_a_file_is_one_text(checkpoint: LoadedModel, tmp_path: Path) -> None:
    for content in ("[4, 5]", "4 5", "[[4, 5]]"):
        (tmp_path / "ids.json").write_text(content)
        [one] = make_model_inputs(
            checkpoint, RequestedInput(token_ids=(f"@{tmp_path / 'ids.json'}",))
        )
        assert (one.kwargs["input_ids"].tolist(), one.name) == ([[4, 5]], str(tmp_path / "ids.json"))  # fmt: skip


def test_several_token_ids_are_several_texts(checkpoint: LoadedModel) -> None:
    found = make_model_inputs(checkpoint, RequestedInput(token_ids=("1,4,2", "1,5,2", "3")))
    assert [one.kwargs["input_ids"][0].tolist() for one in found] == [[1, 4, 2], [1, 5, 2], [3]]
    assert [one.name for one in found] == ["token_ids 1", "token_ids 2", "token_ids 3"]


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("", "holds no token ids"),
        ("[]", "list 1 holds no token ids"),
        ("[[1], []]", "list 2 holds no token ids"),
        ("[1, 2", "line 1 is no list"),
        ("[1.0, 2]", "line 1 is no list"),
        ("[true]", "line 1 is no list"),
        ('["1"]', "line 1 is no list"),
        ("[[[1]]]", "line 1 is no list"),
        ("1 2\na\n", "line 2 is no list"),
        ('{"input_ids": [1]}', "line 1 is no list"),
        ("9" * 5000, "line 1 is no list"),
        ("[" * 100_000, "line 1 is no list"),
        ("[1, 99]", "token id 99, the model knows"),
    ],
)
def test_files_of_no_token_ids_are_refused(
    content: str, says: str, checkpoint: LoadedModel, tmp_path: Path
) -> None:
    (tmp_path / "ids").write_text(content)
    with pytest.raises(InputError, match=says) as refused:
        make_model_inputs(checkpoint, RequestedInput(token_ids=(f"@{tmp_path / 'ids'}",)))
    assert "\n" not in str(refused.value)
    with pytest.raises(InputError, match="cannot be read"):
        make_model_inputs(checkpoint, RequestedInput(token_ids=("@/no/such/file",)))
