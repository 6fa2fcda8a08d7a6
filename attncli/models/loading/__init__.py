"""A checkpoint as a model: strictly, or not at all.

load_options   what is said of it, before anything heavy is imported
load           SOURCE → Checkpoint
architectures  the config's class, without memory for its weights
filling        the tensors of the files put into it
strictness     what is missing, unexpected or computed
precision      dtypes and devices
placing        models over several devices
split_layers   models over several processes
surroundings   what a caller works within, and what no two questions may touch at once
room_needed    what the model and its run take of the memory
twins          the same architecture with random weights
body           which part of a model is run
unwrapped      a model as it is trained: out of what it is wrapped in
live           a module of the caller's own, measured in place and left as it was
resting        a model at rest between two steps of its training
"""
