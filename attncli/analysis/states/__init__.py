"""States of the residual stream over layers, of networks and models.

depth_descriptions  what metrics of depth say in words
variant_runs        variants of a model over texts
network_collapse    synthetic networks over their layers
regimes             what all of them say in words
significant_digits  what rounding has left of a number
size_sweep          synthetic networks over a size
state_metrics       metrics of states and of what blocks do to them, by name
theorem_rows        the theorem layer by layer
trajectories        a synthetic network followed through its layers
value_gradients     how large the gradients of attention alone are
"""
