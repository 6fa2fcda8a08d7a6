"""A checkpoint as a model: strictly, or not at all.

load_options          what is said of it, before anything heavy is imported
architectures         the config's class, without memory for its weights
precision             dtypes and devices
split_layers          models over several processes
placing               models over several devices
isolate_global_state  what a caller works within, and what no two questions may touch at once
memory_estimate       what the model and its run take of the memory
body                  which part of a model is run
strictness            what is missing, unexpected or computed
state_dict            the tensors of the files put into it
in_memory             modules that a caller holds: unwrapped, measured in place, left as they were
load                  SOURCE → Checkpoint
random_init           the same architecture with random weights
"""
