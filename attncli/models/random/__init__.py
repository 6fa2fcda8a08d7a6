"""Any model type of transformers with seeded random weights, and inputs under which it runs.

size_overrides     layers, width, heads … under each config's own names
tiny_sizes         rules that shrink sizes, by the names of attributes
tiny_overrides     exceptions for single types
tiny_configs       a small config of any type
random_models      random:ARCH → model
random_inputs      makers of inputs, by what the model reads
dummy_inputs       example inputs of any model
make_short_inputs  the cheapest input on which a model shows its structure
"""
