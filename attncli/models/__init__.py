"""A name or a live module → a loaded model and its input.

sources     SOURCE, read once: what a text names
file_kinds  what one file is, seen in its content
files       a checkpoint's files
loading     a checkpoint, or a live module, as a model, strictly
random      any model type with seeded random weights
inputs      what a model reads
quiet       transformers has nothing to say to the user
"""
