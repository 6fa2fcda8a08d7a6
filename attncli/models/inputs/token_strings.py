"""The text of each token: ` Thompson` for the piece `ĠThompson`.

Each vocabulary writes spaces and bytes in its own way, which only its tokenizer defines: `Ġ` is a letter of Maltese in
one, the space before a word in another. A leading space is kept, as it distinguishes a word from the end of one;
WordPiece's `##` means the same and is text already. A token may be a part of a character: its bytes are shown then,
`<0xE2><0x80>`, as sentencepiece writes them. Added tokens, such as `<s>`, are text as they are.
"""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

BYTE = re.compile(r"<0x([0-9A-F]{2})>")
"""A byte in a vocabulary of sentencepiece."""
SPACE = "▁"


def map_byte_level_letters_to_bytes() -> dict[str, int]:
    """The letter for each byte: itself if it is printable Latin-1, else the next one from 256 on."""
    own = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in own]
    letters = {chr(byte): byte for byte in own}
    return letters | {chr(256 + place): byte for place, byte in enumerate(others)}


LETTERS = map_byte_level_letters_to_bytes()


@dataclass(frozen=True)
class TokenPieceDecoder:
    """Decodes a vocabulary's pieces."""

    letters_for_bytes: bool = False
    marked_spaces: bool = False
    word_end: str = ""
    """The mark behind the last piece of a word, such as `</w>`."""

    def decode_piece(self, piece: str) -> str:
        """The text of one token, without characters that a terminal would act upon."""
        bare = piece.removesuffix(self.word_end) or piece
        if self.letters_for_bytes and all(letter in LETTERS for letter in bare):
            return escape_unprintable_characters(
                decode_utf8_showing_invalid_bytes(bytes(LETTERS[letter] for letter in bare))
            )
        if self.marked_spaces:
            if byte := BYTE.fullmatch(bare):
                return escape_unprintable_characters(
                    decode_utf8_showing_invalid_bytes(bytes.fromhex(byte[1]))
                )
            bare = bare.replace(SPACE, " ")
        return escape_unprintable_characters(bare)


def decode_utf8_showing_invalid_bytes(raw: bytes) -> str:
    """Decode UTF-8; bytes that form no character are shown one by one."""
    return "".join(
        f"<0x{ord(letter) - 0xDC00:02X}>" if "\udc80" <= letter <= "\udcff" else letter
        for letter in raw.decode("utf-8", errors="surrogateescape")
    )


def escape_unprintable_characters(text: str) -> str:
    r"""Show letters as they are, a line break as `
    `; a token of nothing but spaces too.
    """
    return "".join(
        letter if letter.isprintable() else letter.encode("unicode_escape").decode()
        for letter in text
    )


def find_token_piece_decoder(tokenizer: "PreTrainedTokenizerBase") -> TokenPieceDecoder:
    """Find how a `tokenizers.Tokenizer` writes pieces, from its components."""
    kinds = {
        *iter_tokenizer_component_names(tokenizer.decoder),
        *iter_tokenizer_component_names(tokenizer.pre_tokenizer),
    }
    return TokenPieceDecoder(
        "ByteLevel" in kinds,
        bool({"Metaspace", f"Replace {SPACE}", "ByteFallback"} & kinds),
        getattr(tokenizer.model, "end_of_word_suffix", None) or "",
    )


def iter_tokenizer_component_names(part: Any) -> Iterator[str]:
    """Names of a decoder or pre-tokenizer, and of those that it is a sequence of."""
    if part is not None:
        yield from iter_tokenizer_component_types(json.loads(part.__getstate__()))


def iter_tokenizer_component_types(component: Any) -> Iterator[str]:
    if isinstance(component, list):
        for each in component:
            yield from iter_tokenizer_component_types(each)
    elif isinstance(component, dict):
        name = str(component.get("type", ""))
        pattern = component.get("pattern")
        yield name
        if name == "Replace" and isinstance(pattern, dict):
            yield f"Replace {pattern.get('String', '')}"
        for inner in ("decoders", "pretokenizers"):
            yield from iter_tokenizer_component_types(component.get(inner, []))


def decode_token_pieces(tokenizer: Any, ids: Sequence[int], pieces: Sequence[str]) -> list[str]:
    """The text of each of these tokens."""
    writing, added = find_token_piece_decoder(tokenizer), tokenizer.get_added_tokens_decoder()
    return [
        escape_unprintable_characters(piece) if number in added else writing.decode_piece(piece)
        for number, piece in zip(ids, pieces, strict=True)
    ]


def decode_sentencepiece_pieces(pieces: Sequence[str]) -> list[str]:
    """Decode pieces of a Python tokenizer, which does not define its marks: sentencepiece's have no other meaning."""
    writing = TokenPieceDecoder(marked_spaces=True)
    return [writing.decode_piece(piece) for piece in pieces]
