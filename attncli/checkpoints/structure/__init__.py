"""Where a model's blocks are, and what runs through them; found by watching it, not by names.

wrapping         standing around the forward of modules for a while
attention_calls  which torch functions are attention
probe            one watched forward
blocks           stacks of blocks, and their states as they pass
stack_names      what the stacks are called
stream_places    where a block takes its stream in and gives it out
positions        how many of them an image or a sound becomes
token_layout     any state as [batch, token, feature]
carried          tensors that go through a model's code in place of its stream
mixers           what mixes tokens beside attention
disturbed        blocks that compute with disturbed last bits
traits           causal or not, positions in the attention or not
"""
