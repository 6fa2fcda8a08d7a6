"""Tokens as they are shown, against the text that they were made of, for every way in which vocabularies write."""

import re
from collections.abc import Callable

import pytest
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers

from attncli.models.inputs.token_strings import LETTERS, decode_token_pieces

CORPUS = [
    "Thompson said: the café is open\tat nine.\n",
    "the the said said Thompson Thompson café naïve – 3 × 4 = 12",
    "Ġgantija is a temple; underscores ▁ are none of ours. 漢字 😀",
]


def byte_level() -> Tokenizer:
    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    made.post_processor = processors.ByteLevel(trim_offsets=False)
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    made.train_from_iterator(
        CORPUS,
        trainers.BpeTrainer(vocab_size=300, initial_alphabet=alphabet, special_tokens=["<é>"]),
    )
    return made


def byte_level_in_sequence() -> Tokenizer:
    """As Llama 3 and Qwen write: the bytes are a part of a sequence."""
    made = byte_level()
    split = pre_tokenizers.Split(re.escape(" the"), "isolated")
    inner = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    made.pre_tokenizer = pre_tokenizers.Sequence([split, inner])
    return made


def byte_fallback() -> Tokenizer:
    """As Llama 2 and Gemma write: spaces are ▁, and what is not in the vocabulary is bytes."""
    vocabulary = {"<unk>": 0, **{f"<0x{byte:02X}>": 1 + byte for byte in range(256)}}
    for piece in ("▁", "▁the", "▁Thompson", "s", "▁said"):
        vocabulary[piece] = len(vocabulary)
    made = Tokenizer(
        models.BPE(vocabulary, [], unk_token="<unk>", byte_fallback=True, fuse_unk=True)
    )
    made.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="never", split=True)
    made.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()])  # fmt: skip
    return made


def unigram() -> Tokenizer:
    pieces = [("<unk>", 0.0), ("▁the", -1.0), ("▁Thom", -1.0), ("pson", -1.0), ("▁", -3.0), ("s", -3.0)]  # fmt: skip
    made = Tokenizer(models.Unigram(pieces, 0, False))
    made.pre_tokenizer = pre_tokenizers.Metaspace()
    made.decoder = decoders.Metaspace()
    return made


BYTES: list[Callable[[], Tokenizer]] = [byte_level, byte_level_in_sequence, byte_fallback]


def as_bytes(shown: str) -> bytes:
    """A shown token read back."""
    parts = re.split(r"(<0x[0-9A-F]{2}>|\\[tnr])", shown)
    escapes = {"\\t": b"\t", "\\n": b"\n", "\\r": b"\r"}
    return b"".join(
        bytes.fromhex(part[3:5]) if part.startswith("<0x") else escapes.get(part, part.encode())
        for part in parts
    )


@pytest.mark.parametrize("make", BYTES)
@pytest.mark.parametrize("text", CORPUS)
def test_shown_tokens_are_the_text(make: Callable[[], Tokenizer], text: str) -> None:
    """Put together, byte by byte, they are what was read, whatever the pieces are."""
    if make is byte_fallback:
        text = text.replace("▁", "_")  # sentencepiece itself reads that sign as a space
    tokenizer = make()
    found = tokenizer.encode(text)
    shown = decode_token_pieces(tokenizer, found.ids, found.tokens)
    assert b"".join(map(as_bytes, shown)).decode() == text
    assert all(token.isprintable() for token in shown)


def test_words_are_read_as_words() -> None:
    tokenizer = byte_level()
    found = tokenizer.encode("the Thompson said Ġ café")
    shown = decode_token_pieces(tokenizer, found.ids, found.tokens)
    assert " Thompson" in shown
    assert "ĠThompson" in found.tokens
    assert "Ġ" not in "".join(shown).replace(" Ġ", "")


def test_a_part_of_a_character_is_shown_as_its_bytes() -> None:
    tokenizer = byte_level()
    dash = tokenizer.encode("☃")  # three bytes, of which no piece was learned
    assert decode_token_pieces(tokenizer, dash.ids, dash.tokens) == ["<0xE2>", "<0x98>", "<0x83>"]
    whole = Tokenizer(models.WordLevel({"Ċ": 0, "âĢĶ": 1, "ĠâĢ": 2, "Ġ": 3}, "Ċ"))
    whole.decoder = decoders.ByteLevel()
    assert decode_token_pieces(whole, [0, 1, 2, 3], ["Ċ", "âĢĶ", "ĠâĢ", "Ġ"]) == [
        "\\n",
        "—",
        " <0xE2><0x80>",
        " ",
    ]


def test_what_is_added_stands_as_it_is() -> None:
    """`é` is the letter of a byte, but not in a special token."""
    tokenizer = byte_level()
    found = tokenizer.encode("<é>café")
    assert decode_token_pieces(tokenizer, found.ids, found.tokens)[0] == "<é>"


def test_other_vocabularies() -> None:
    pieces = unigram().encode("the Thompsons")
    assert decode_token_pieces(unigram(), pieces.ids, pieces.tokens) == [
        " the",
        " Thom",
        "pson",
        "s",
    ]
    words = Tokenizer(
        models.WordPiece(
            {"[UNK]": 0, "Ġgantija": 1, "the": 2, "##me": 3, "▁": 4}, unk_token="[UNK]"
        )
    )
    words.decoder = decoders.WordPiece()
    assert decode_token_pieces(words, [1, 2, 3, 4], ["Ġgantija", "the", "##me", "▁"]) == [
        "Ġgantija",
        "the",
        "##me",
        "▁",
    ]
    ends = Tokenizer(models.BPE({"the</w>": 0, "th": 1}, [], end_of_word_suffix="</w>"))
    ends.decoder = decoders.BPEDecoder("</w>")
    assert decode_token_pieces(ends, [0, 1], ["the</w>", "th"]) == ["the", "th"]


def test_the_letters_are_those_of_every_byte() -> None:
    assert sorted(LETTERS.values()) == list(range(256))
    assert set(LETTERS) == set(pre_tokenizers.ByteLevel.alphabet())
