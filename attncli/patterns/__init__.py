"""Target patterns: one file each, a function `(length, rng, causal, *, …) -> csr_array` of nonnegative weights.

`build` makes one from text: `window:3`, a sum `global:2+window:3`, or a file. What it returns is a row-stochastic
sparse matrix in which every query has a key, and, under the causal mask, no key ahead of it.

    >>> import numpy as np
    >>> from attncli.patterns import build_pattern
    >>> pattern = build_pattern("window:2", 3, np.random.default_rng(0), causal=True)
    >>> pattern.toarray().tolist()
    [[1.0, 0.0, 0.0], [0.5, 0.5, 0.0], [0.0, 0.5, 0.5]]
"""

from collections.abc import Callable

import numpy as np
from scipy.sparse import csr_array

from attncli.errors import UsageError
from attncli.patterns._make_sparse_pattern import (
    add_self_to_empty_rows,
    keep_causal_keys,
    normalise_pattern_rows,
    union_patterns,
)
from attncli.patterns._pattern_files import read_pattern
from attncli.patterns._pattern_text_grammar import is_pattern_file
from attncli.registry import Registry, call_entry_from_text

PATTERNS: Registry[Callable[..., csr_array]] = Registry("pattern", "attncli.patterns")


def build_pattern(
    text: str, length: int | None, rng: np.random.Generator, causal: bool = False
) -> csr_array:
    """The pattern that `text` names, at `length` tokens (None: as long as the file it names).

    Under the causal mask keys ahead of the query are dropped from built-in patterns (a file with such keys is
    refused), and a query left without any key attends to itself.
    """
    if is_pattern_file(text):
        return normalise_pattern_rows(read_pattern(text, length, causal))
    if length is None or length < 1:
        raise UsageError(f"pattern '{text}' needs a length of at least 1 token (`length`).")
    parts = [
        call_entry_from_text(PATTERNS, part, length=length, rng=rng, causal=causal)
        for part in split_pattern_sum(text)
    ]
    total = parts[0]
    for part in parts[1:]:
        total = union_patterns(total, part)
    return normalise_pattern_rows(
        add_self_to_empty_rows(keep_causal_keys(total) if causal else total)
    )


def split_pattern_sum(text: str) -> list[str]:
    """`global:2+window:3` → its parts."""
    parts = [part.strip() for part in text.split("+")]
    if not all(parts):
        raise UsageError(f"pattern '{text}' has an empty part: write NAME or NAME+NAME.")
    return parts
