"""What a model does while it runs, on its own unmodified code, found by watching and not by names.

Its blocks, and what runs through them:

chance              runs of a model that draws numbers, made alike
wrapping            standing around the forward of modules for a while
attention_calls     which torch functions are attention
stack_names         what the stacks are called
named_module        a module by the end of its path
stream_places       where a block takes its stream in and gives it out
probe               one watched forward
held_modules        a module of any origin, held as a model
token_layout        any state as [batch, token, feature]
blocks              stacks of blocks, and their states as they pass
cut_streams         the first tokens alone of what an image or a sound becomes
mixer_words         mixers and layers in words
disturbed           blocks that compute with disturbed last bits
float64             models in float64 that stay there
traits              causal or not, positions in the attention or not

Its attention, as strips of rows that are handed on and dropped; the same for any architecture:

attention_sites     which attention is which: stack, layer, kind
masks               masks that are evaluated a strip of rows at a time
softmax_inputs      what the softmax was given, where the very tensor that it gave is handed on
interface           models on transformers' attention interface: strips of their own eager function
softmax_calls       all others: their softmax or sdpa calls, one layer at a time
split_heads         heads that are divided over processes, put together again
mixers              what mixes tokens beside attention
differential        attention whose maps are one softmax less a part of another
left_out            attention that is not seen beside attention that is
stream_mixing       matrices that mix the streams of a token
capture             the context that puts these around a model
map_gradients       maps kept whole, to differentiate by
beside              the same of a pass that runs as ever, with gradients
output_projections  the linear layers that take the heads' outputs
output_gates        the gates that multiply these outputs before
proof               that what was captured is the model's own attention
position_counts     how many of them an image or a sound becomes

Rooms that are built on these:

linear              exact maps of recurrences and convolutions that are linear in their values
saved               maps in files, saved here or by other programs
"""

from attncli.watching.attention_sites import Shape, Site
from attncli.watching.capture import STRIP_MEMORY, streaming
from attncli.watching.interface import Strip, in_rounds
from attncli.watching.output_gates import watching_gates
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
    "watching_gates",
    "watching_projections",
]
