"""Ablate parts of a transformer's blocks, on unmodified model code.

While a block runs, each tensor has a tag that records its ancestors. The stream is the block's input and what
skip additions, norms, views, casts and scalar factors make of it. A skip addition is `a + b` where a is on the stream and
b descends from that very a; it can then return b alone, or a alone. No module names are needed. Whatever mixes tokens,
a recurrence or a convolution, is treated as attention is.

norm_layers               norms: functions, modules named so, and hand-written modules that are not
stream_tracking           one block while it runs: tags on its tensors, and what is kept of its additions and norms
block_structure           the recognised structure of a model
block_structure_checks    what every block must satisfy before anything is ablated
run_blocks_under_tracker  the context in which every block runs with tags
model_probes              further forwards: which branches mix tokens, and verification of the anatomy
block_recognition         recognise a model's anatomy and verify it
albert_mlp_activation     what the code behind the published figures leaves in ALBERT
sub_block_ablation        the context in which parts are off

    >>> import torch
    >>> from transformers import GPT2Config, GPT2Model
    >>> from attncli.ablation import ablate_sub_blocks, recognise_block_anatomy
    >>> from attncli.networks.ablation_variants import VARIANTS
    >>> config = GPT2Config(n_layer=1, n_head=2, n_embd=8, vocab_size=9, bos_token_id=0, eos_token_id=0)
    >>> model, inputs = GPT2Model(config).eval(), {"input_ids": torch.arange(5)[None]}
    >>> whole, anatomy = model(**inputs)[0], recognise_block_anatomy(model, inputs)
    >>> with torch.no_grad(), ablate_sub_blocks(model, anatomy, VARIANTS["SAN"]):
    ...     pure = model(**inputs)[0]
    >>> bool(torch.allclose(pure, whole))
    False
"""

from attncli.ablation.block_recognition import recognise_block_anatomy
from attncli.ablation.block_structure import BlockAnatomy
from attncli.ablation.sub_block_ablation import ablate_sub_blocks

__all__ = ["BlockAnatomy", "ablate_sub_blocks", "recognise_block_anatomy"]
