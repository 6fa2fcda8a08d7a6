"""One block while it runs: tags on its tensors, and what is kept of its additions and norms.

call_sites       where in the model's code something happens
tags             what is known of a tensor, and the points of the stream
block_run        one execution of one block, and what was seen in it
keep_policy      what of an addition, merge or norm is kept
operands         the two sides of a sum or product
tag_propagation  how tags pass from a function's arguments to its results
additions        which additions are skips, which merge parallel branches
tracker          the mode that stands around every torch function and does all this
"""
