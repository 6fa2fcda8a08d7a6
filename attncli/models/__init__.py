"""A name or a live module → a loaded model and its input.

text_configs     the part of a config that is about what the model reads
layer_configs    sizes that a config gives its layers
model_classes    the class of transformers that runs a config
forward_names    what a model's forward calls what it reads
library_errors   whatever libraries raise, as a sentence about the folder
files            a checkpoint's files
casting          a model's numbers in another type
quiet_libraries  keeps libraries from printing while a model is loaded
random           any model type with seeded random weights
loading          a checkpoint, or a live module, as a model, strictly
inputs           what a model reads
"""
