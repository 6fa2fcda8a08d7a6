"""A name or a live module → a loaded model and its input.

file_kinds      what one file is, seen in its content
sources         SOURCE, read once: what a text names
text_configs    what of a config is about what it reads
model_classes   the class of transformers that runs a config
library_errors  what libraries raise over a folder, as a sentence
files           a checkpoint's files
quiet           transformers has nothing to say to the user
random          any model type with seeded random weights
loading         a checkpoint, or a live module, as a model, strictly
inputs          what a model reads
"""
