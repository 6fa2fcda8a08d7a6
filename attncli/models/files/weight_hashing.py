"""Hash all weights in one pass, and check that they are finite.

The hash covers names, types, shapes and bytes in the order of the names. Shards, metadata and the order in a file
do not enter it, so that two copies of the same weights have the same hash however they were saved.
"""

import hashlib
from collections.abc import Iterable, Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from attncli.errors import InputError

CHUNK = 1 << 22
"""Bytes read at a time; a multiple of every width."""


class ExponentBits(NamedTuple):
    """The exponent bits of a floating type: all ones means NaN or Inf."""

    word: str
    exponent: int


FLOATS: Mapping[str, ExponentBits] = {
    "F64": ExponentBits("<u8", 0x7FF0_0000_0000_0000),
    "F32": ExponentBits("<u4", 0x7F80_0000),
    "F16": ExponentBits("<u2", 0x7C00),
    "BF16": ExponentBits("<u2", 0x7F80),
}


class WeightBytes(NamedTuple):
    """A tensor as bytes."""

    where: str
    """The file, for error messages."""
    name: str
    dtype: str
    shape: tuple[int, ...]
    chunks: Iterable[NDArray[np.uint8]]
    """All its bytes, in chunks."""


def hash_weights(weights: Iterable[WeightBytes]) -> str:
    """Hash tensors that come in the order of their names; one that is not finite is refused by name."""
    digest = hashlib.sha256()
    for weight in weights:
        digest.update(repr((weight.name, weight.dtype, weight.shape)).encode())
        start = 0
        for chunk in weight.chunks:
            refuse_non_finite_weights(weight, chunk, start)
            digest.update(chunk.data)
            start += chunk.size
    return digest.hexdigest()


def refuse_non_finite_weights(weight: WeightBytes, chunk: NDArray[np.uint8], start: int) -> None:
    bits = FLOATS.get(weight.dtype)
    if bits is None:
        return
    words = chunk.view(bits.word)
    exponent = words.dtype.type(bits.exponent)
    bad = (words & exponent) == exponent
    if not bad.any():
        return
    first = int(np.argmax(bad))
    mantissa = ~exponent & words.dtype.type(np.iinfo(words.dtype).max >> 1)
    kind = "NaN" if words[first] & mantissa else "Inf"
    flat = start // words.itemsize + first
    at = [int(index) for index in np.unravel_index(flat, weight.shape)] if weight.shape else []
    raise InputError(
        f"{weight.where}: tensor {weight.name} holds {kind} at {at}: weights that are no numbers cannot be analysed."
    )
