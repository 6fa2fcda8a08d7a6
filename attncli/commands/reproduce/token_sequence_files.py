"""The tokens of a file, in order: what a task memorises."""

import hashlib
import re
from pathlib import Path

import numpy as np

from attncli.commands.reproduce.tasks.memorise import TokenStream
from attncli.errors import InputError, format_count
from attncli.models.inputs.text_files import read_texts_from_file
from attncli.models.inputs.token_id_lists import parse_json_token_ids, parse_lines_of_token_ids

WORD = re.compile(r"\w+|[^\w\s]")
"""Words and punctuation marks, as in the first split of BERT's tokenizer."""


def read_and_renumber_tokens(path: Path, needed: int) -> TokenStream:
    """Read token ids, as `--token-ids @FILE` takes them, or else lower-case words and marks of a
    text; renumber them."""
    texts = read_texts_from_file(str(path))
    numbers = read_token_id_lists("\n".join(texts), str(path))
    found = numbers or [word for text in texts for word in WORD.findall(text.lower())]
    if len(found) < needed:
        raise InputError(
            f"{path} holds {format_count(len(found), 'token')}, `sequences` times `length` are {needed:,}: lower one of them."
        )
    tokens = np.unique(np.array(found[:needed]), return_inverse=True)[1].astype(np.int64)
    digest = hashlib.sha256(tokens.tobytes()).hexdigest()[:16]
    return TokenStream(tokens, digest)


def read_token_id_lists(content: str, path: str) -> list[int]:
    """Read all lists of ids, concatenated; empty where the file is a text."""
    try:
        lists = parse_json_token_ids(content) or list(parse_lines_of_token_ids(content, path))
    except InputError:
        return []
    return [number for each in lists for number in each]
