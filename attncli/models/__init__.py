"""Load SOURCE or an in-memory model, and prepare its input.

layer_sizes_from_config  sizes that a config gives its layers
model_classes            the class of transformers that runs a config, and the arguments of its forward
library_errors           libraries' exceptions as one sentence about the folder
files                    a checkpoint's files
quiet_libraries          silence libraries while a model loads
precision                dtypes and devices
random                   any model type with seeded random weights
loading                  a checkpoint, or an in-memory module, as a model, strictly
inputs                   the inputs of a model

    >>> from attncli.models.loading.load_model import load_model
    >>> loaded = load_model("random:bert?layers=1&width=16&heads=2")
    >>> loaded.model.config.num_hidden_layers
    1
"""
