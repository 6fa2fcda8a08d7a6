"""Find the blocks of a model by where attention runs, and observe their states.

block_stack_names                names of stacks
module_paths                     a module by the end of its path
residual_stream                  a block's residual stream: which argument and result it is, as [batch, token, feature]
probe_forward                    one recorded forward, and towers that did not run in it
modules_outside_transformers     a module not from transformers, wrapped as a model
blocks                           stacks of blocks, and their states during a forward
truncate_residual_stream_tokens  shorten an image's or a sound's stream to its first tokens
"""
