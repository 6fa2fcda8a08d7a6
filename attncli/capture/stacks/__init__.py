"""The blocks of a model, found where its attention happens, and what runs through them.

stack_names                what the stacks are called
module_paths               a module by the end of its path
residual_stream_arguments  where a block takes its stream in and gives it out
token_layout               any state as [batch, token, feature]
probe_forward              one watched forward
foreign_modules            a module of any origin, held as a model
blocks                     stacks of blocks, and their states as they pass
truncate_stream            the first tokens alone of what an image or a sound becomes
"""
