"""Find the blocks of a model by where attention runs, and observe their states.

stack_names                names of stacks
module_paths               a module by the end of its path
residual_stream_arguments  which argument and result of a block is its residual stream
token_layout               any state as [batch, token, feature]
probe_forward              one recorded forward
custom_modules             a module not from transformers, wrapped as a model
blocks                     stacks of blocks, and their states during a forward
truncate_stream            shorten an image's or a sound's stream to its first tokens
unused_towers              towers of a model that did not run in a forward
"""
