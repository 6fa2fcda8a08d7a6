"""Convert text to token ids, with the special tokens of the checkpoint's own tokenizer."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from transformers import PreTrainedTokenizerBase

from attncli.errors import InputError, UsageError
from attncli.models.inputs.token_strings import decode_sentencepiece_pieces, decode_token_pieces
from attncli.models.library_errors import translate_library_errors
from attncli.models.loading.loaded_model import LoadedModel
from attncli.models.quiet_libraries import silence_native_stderr

ONE_FILE = "tokenizer.json"
VOCABULARIES = ("vocab.txt", "vocab.json", "*.model")
ADVICE = "give `token_ids`, or random tokens instead of a text"
NEEDED = ("convert_ids_to_tokens", "unk_token_id")
"""Attributes that a tokenizer of transformers must have, and be callable."""
UNKNOWN_SHARE = 0.5
"""Above this share, the text is not in the tokenizer's language, or the tokenizer not the checkpoint's."""


class EncodedText(NamedTuple):
    """One encoded text."""

    ids: list[int]
    labels: list[str]
    unknown: int
    """How many ids are the unknown token."""
    special: int = 0
    """How many special tokens the tokenizer added."""


class Tokenizer(Protocol):
    """The interface of tokenizers here; `limit` cuts the text and keeps the special tokens."""

    def encode(self, text: str, limit: int | None) -> EncodedText: ...

    def decode_each_token(self, ids: Sequence[int]) -> list[str]:
        """The text of each of these tokens."""
        ...


class JsonTokenizer:
    """tokenizer.json, read without transformers, which takes fifty times as long."""

    def __init__(self, path: Path) -> None:
        from tokenizers import Tokenizer as Read

        self.tokenizer = Read.from_file(str(path))
        self.tokenizer.no_padding()

    def encode(self, text: str, limit: int | None) -> EncodedText:
        self.tokenizer.no_truncation()
        if limit is not None:
            self.tokenizer.enable_truncation(limit)
        found = self.tokenizer.encode(text)
        unknown = sum(token == self.unknown_token() for token in found.tokens)
        labels = decode_token_pieces(self.tokenizer, found.ids, found.tokens)
        return EncodedText(found.ids, labels, unknown, sum(found.special_tokens_mask))

    def decode_each_token(self, ids: Sequence[int]) -> list[str]:
        pieces = [self.tokenizer.id_to_token(each) for each in ids]
        known = [
            str(each) if piece is None else piece for each, piece in zip(ids, pieces, strict=True)
        ]
        return decode_token_pieces(self.tokenizer, ids, known)

    def unknown_token(self) -> str | None:
        token: str | None = getattr(self.tokenizer.model, "unk_token", None)
        return token


class TransformersTokenizer:
    """A tokenizer of transformers: built from vocab.txt and the like, or given with an in-memory model."""

    def __init__(self, tokenizer: PreTrainedTokenizerBase) -> None:
        refuse_invalid_tokenizer(tokenizer)
        self.tokenizer = tokenizer

    @classmethod
    def load_from_folder(cls, folder: Path) -> "TransformersTokenizer":
        from transformers import AutoTokenizer

        found = AutoTokenizer.from_pretrained(
            folder, local_files_only=True, trust_remote_code=False
        )
        return cls(found)

    def encode(self, text: str, limit: int | None) -> EncodedText:
        with preserve_tokenizer_settings(getattr(self.tokenizer, "backend_tokenizer", None)):
            found = self.tokenizer(
                text,
                truncation=limit is not None,
                max_length=limit,
                return_special_tokens_mask=True,
            )
        ids = found["input_ids"]
        unknown = sum(each == self.tokenizer.unk_token_id for each in ids)
        return EncodedText(
            ids, self.decode_each_token(ids), unknown, sum(found["special_tokens_mask"])
        )

    def decode_each_token(self, ids: Sequence[int]) -> list[str]:
        pieces = [str(self.tokenizer.convert_ids_to_tokens(each)) for each in ids]
        inner = getattr(self.tokenizer, "backend_tokenizer", None)
        return (
            decode_sentencepiece_pieces(pieces)
            if inner is None
            else decode_token_pieces(inner, ids, pieces)
        )


@contextmanager
def preserve_tokenizer_settings(inner: Any) -> Iterator[None]:
    """Preserve a fast tokenizer's truncation and padding, which are state of the tokenizer itself."""
    if inner is None:
        yield
        return
    cut, padded = inner.truncation, inner.padding
    try:
        yield
    finally:
        inner.enable_truncation(**cut) if cut else inner.no_truncation()
        inner.enable_padding(**padded) if padded else inner.no_padding()


def refuse_invalid_tokenizer(tokenizer: PreTrainedTokenizerBase) -> None:
    """Refuse an object that is no tokenizer, such as a name."""
    if not callable(tokenizer) or any(not hasattr(tokenizer, name) for name in NEEDED):
        raise UsageError(
            "`tokenizer` must be a tokenizer of transformers, such as AutoTokenizer.from_pretrained('gpt2') gives, not "
            f"{tokenizer!r:.80}."
        )


def load_tokenizer(checkpoint: LoadedModel) -> Tokenizer:
    """Load the checkpoint's own tokenizer; without one there are no texts, but still ids."""
    folder = checkpoint.folder
    if checkpoint.tokenizer is not None:
        return TransformersTokenizer(checkpoint.tokenizer)
    if folder is None and checkpoint.identity.get("kind") == "live":
        name = type(checkpoint.model).__name__
        raise InputError(
            f"this {name} came without a tokenizer: give `tokenizer` with it, `token_ids`, or random tokens instead of a text."
        )
    if folder is None:
        raise InputError(f"a random model has no tokenizer: {ADVICE}.")
    if (folder / ONE_FILE).is_file():
        path = folder / ONE_FILE
        with silence_native_stderr():
            return translate_library_errors(
                folder, f"{ONE_FILE} is not understood", lambda: JsonTokenizer(path)
            )
    if any(any(folder.glob(pattern)) for pattern in VOCABULARIES):
        what = f"its tokenizer does not load, {ADVICE}"
        with silence_native_stderr():
            return translate_library_errors(
                folder, what, lambda: TransformersTokenizer.load_from_folder(folder)
            )
    raise InputError(f"{folder} has no tokenizer: {ADVICE}.")


def encode_text(
    folder: Path | str, tokenizer: Tokenizer, name: str, text: str, limit: int | None
) -> EncodedText:
    """Encode one text, and refuse it if most of it becomes unknown tokens.

    transformers builds a tokenizer of five special tokens out of a vocabulary that it cannot read (rxnmapper's
    vocab.txt under model type albert), for which every word is unknown.
    """
    what = f"{name} cannot be tokenized"
    with silence_native_stderr():
        found = translate_library_errors(folder, what, lambda: tokenizer.encode(text, limit))
    words = len(found.ids) - found.special
    if limit is not None and (len(found.ids) > limit or (words < 1 and text.strip())):
        raise UsageError(f"`tokens={limit!r}` leaves no room besides the special tokens of {name}.")
    if words < 1:
        raise InputError(f"{name} is empty, but for special tokens: give a text with words.")
    if found.unknown > UNKNOWN_SHARE * words:
        raise InputError(
            f"the tokenizer of {folder} knows {words - found.unknown} of the {words} words of {name}: "
            f"it is not made for this text, or not read right: {ADVICE}."
        )
    return found
