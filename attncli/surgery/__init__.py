"""Parts of a transformer's blocks switched off, on unmodified model code.

While a block runs, each tensor carries a tag that says what it descends from. The stream is the block's input and what
skip additions, norms, views, casts and scalar factors make of it. A skip addition is `a + b` where a is on the stream and
b descends from that very a; it can then return b alone, or a alone. No module names are needed. Whatever mixes tokens,
a recurrence or a convolution, is treated as attention is.

tags          what is known of a tensor, and the points of the stream
code_places   where in the model's code something happened
block_run     one execution of one block, and what was seen in it
sides         what an addition adds
following     how tags pass through every other function
additions     which additions are skips, which merge parallel branches
kept_parts    what of an addition, merge or norm is kept
tracker       the mode that stands around every function while a block runs
tracking      the context that runs every block under a tracker
norm_modules  which modules are norms
nameless      norms that are not called so
anatomy       what was recognised in a model
guards        what must hold of every block before anything is switched off
mixing        which branches mix tokens though nothing attends in them
kept_mixers   what is to be said of those
proofs        forwards that prove what was recognised
gaps          forwards that prove what lies between blocks
examine       both together
switched      the context in which parts are off
published     what the published code leaves in ALBERT
"""

from attncli.surgery.anatomy import Anatomy
from attncli.surgery.examine import examine
from attncli.surgery.switched import switched

__all__ = ["Anatomy", "examine", "switched"]
