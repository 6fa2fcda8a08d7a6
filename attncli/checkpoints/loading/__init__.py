"""A checkpoint as a model: strictly, or not at all.

load           SOURCE → Checkpoint
architectures  the config's class, without memory for its weights
strictness     what is missing, unexpected or computed
precision      dtypes and devices
room_needed    what the model and its run take of the memory
twins          the same architecture with random weights
quiet          transformers has nothing to say to the user
"""
