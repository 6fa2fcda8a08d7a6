"""Any model type of transformers with seeded random weights, and inputs under which it runs.

size_words      layers, width, heads … as each config calls them
tiny_sizes      its sizes, by the names of attributes
tiny_overrides  what single types need beside
timm_backbones  parts of other packages, by parts of transformers
tiny_configs    a small config of any type
random_models   random:ARCH → model
makers          how each of them is made, by what the model reads
dummy_inputs    example inputs of any model
short_inputs    the cheapest input on which a model shows its structure
"""
