"""Find a model's blocks and attention while it runs, on its own unmodified code, and emit states and strips of maps.

Its blocks, and what runs through them:

forward_wrappers      a function put around the forward of modules for a while
attention_calls       which torch functions are attention
stacks                the blocks of a model, found where its attention happens
reruns                a model run under terms of ours: the same chance, float64, disturbed last bits
model_errors          what a model's own code raises, told from errors of ours

Its attention, as strips of rows that are handed on and dropped; the same for any architecture:

strips                which attention is which, and its maps a strip of rows at a time
other_mixers          what mixes tokens beside the attention that is seen
context               the context in which a running model hands its strips on
map_gradients         maps kept whole, to differentiate by
passive               strips of a pass that runs as ever, gradients and all
verification          that what was captured is the model's own attention
position_counts       how many positions an image or a sound becomes
unseen_attention      why no attention was seen, in words
attention_properties  causal or not, positions in the attention or not

Rooms that are built on these:

linear                exact maps of recurrences and convolutions that are linear in their values
saved_maps            maps in files, saved here or by other programs
"""

from attncli.capture.context import STRIP_MEMORY, capture_attention
from attncli.capture.strips.attention_interface import Strip, observe_in_rounds
from attncli.capture.strips.attention_sites import AttentionSite, MapShape
from attncli.capture.strips.output_gates import observe_gates
from attncli.capture.strips.output_projections import observe_projections
from attncli.capture.verification import VerifiedCapture, verify_capture

__all__ = [
    "STRIP_MEMORY",
    "AttentionSite",
    "MapShape",
    "Strip",
    "VerifiedCapture",
    "capture_attention",
    "observe_gates",
    "observe_in_rounds",
    "observe_projections",
    "verify_capture",
]
