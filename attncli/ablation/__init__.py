"""Parts of a transformer's blocks switched off, on unmodified model code.

While a block runs, each tensor carries a tag that says what it descends from. The stream is the block's input and what
skip additions, norms, views, casts and scalar factors make of it. A skip addition is `a + b` where a is on the stream and
b descends from that very a; it can then return b alone, or a alone. No module names are needed. Whatever mixes tokens,
a recurrence or a convolution, is treated as attention is.

norm_modules       which modules and functions are norms
tags               one block while it runs: tags on its tensors, and what is kept of its additions and norms
anatomy            what was recognised in a model
guards             what must hold of every block before anything is switched off
tracking           the context in which every block runs with tags
trials             more forwards: which branches mix tokens, and proofs of what was recognised
examine            a model's anatomy: recognised, then tried and proved
albert_activation  what the code behind the published figures leaves in ALBERT
switches           the context in which parts are off
"""

from attncli.ablation.anatomy import Anatomy
from attncli.ablation.examine import recognise_anatomy
from attncli.ablation.switches import ablate

__all__ = ["Anatomy", "ablate", "recognise_anatomy"]
