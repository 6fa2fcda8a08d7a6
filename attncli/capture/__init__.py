"""Find a model's blocks and attention while its unmodified code runs, and emit states and strips of attention maps.

Blocks and residual streams:

forward_wrappers                wrap the forward of modules temporarily, or hook it
attention_function_registry     swap functions of transformers' attention interface temporarily
attention_calls                 which torch functions are attention
model_structure                 the blocks of a model, found where its attention runs
reruns                          run a model again: with fixed random numbers, in float64, with perturbed last bits
model_errors                    separate errors of a model's code from our own

Attention maps, as strips of rows that are emitted and dropped; the same for any architecture:

softmax_attention               which attention is which, and its maps in strips of rows
one_pass                        attention and the statistics of its maps by a compiled library
other_mixers                    what mixes tokens besides the captured attention
attention_capture               the context in which a running model emits its strips
map_gradients                   whole maps, for gradients
capture_from_unchanged_forward  strips of a forward pass that runs unchanged, gradients included
verify_captured_attention       check that the captured maps are the model's own attention
input_token_counts              how many positions an image or a sound becomes
undetected_attention            explain why no attention was seen
probe_causality_and_positions   is attention causal, does it use positions

Packages built on these:

linear_attention                exact maps of recurrences and convolutions that are linear in their values
saved_maps                      maps in files, saved here or by other programs

    >>> import torch
    >>> from transformers import GPT2Config, GPT2Model
    >>> from attncli.capture import capture_attention
    >>> config = GPT2Config(n_layer=1, n_head=2, n_embd=8, vocab_size=9, bos_token_id=0, eos_token_id=0)
    >>> model = GPT2Model(config).eval()
    >>> shapes = []
    >>> def observe(site, strip):
    ...     shapes.append((site.layer, tuple(strip.weights.shape)))
    >>> with torch.no_grad(), capture_attention(model, observe):
    ...     output = model(input_ids=torch.arange(5)[None])
    >>> shapes
    [(0, (1, 2, 5, 5))]
"""

from attncli.capture.attention_capture import STRIP_MEMORY, capture_attention
from attncli.capture.softmax_attention.attention_interface import (
    Strip,
    emit_map_rows_while_requested,
)
from attncli.capture.softmax_attention.attention_site_names import AttentionSite, MapShape
from attncli.capture.verify_captured_attention import VerifiedCapture, verify_capture

__all__ = [
    "STRIP_MEMORY",
    "AttentionSite",
    "MapShape",
    "Strip",
    "VerifiedCapture",
    "capture_attention",
    "emit_map_rows_while_requested",
    "verify_capture",
]
