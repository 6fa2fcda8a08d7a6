"""Attention of unmodified models, as strips of rows that are handed on and dropped; the same for any architecture.

sites       which attention is which: stack, layer, kind
masks       masks that are evaluated a strip of rows at a time
interface   models on transformers' attention interface: strips of their own eager function
watching    all others: their softmax or sdpa calls, one layer at a time
split_heads heads that are divided over processes, put together again
differential attention whose maps are one softmax less a part of another
capture     the context that puts both around a model
projections the linear layers that take the heads' outputs
proof       that what was captured is the model's own attention
"""

from attncli.watching.attention_sites import Shape, Site
from attncli.watching.capture import STRIP_MEMORY, streaming
from attncli.watching.interface import Strip, in_rounds
from attncli.watching.output_projections import watching_projections
from attncli.watching.proof import Proof, prove

__all__ = [
    "STRIP_MEMORY",
    "Proof",
    "Shape",
    "Site",
    "Strip",
    "in_rounds",
    "prove",
    "streaming",
    "watching_projections",
]
