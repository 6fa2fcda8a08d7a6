"""States of the residual stream over layers, of networks and models.

states_before_blocks    the states of a model that steps lead from
model_variant_runs      variants of a model over texts
network_collapse        synthetic networks over their layers
findings_and_headlines  sentences: the regime of each variant, metrics of depth, and the headline of networks and models
significant_digits      digits that rounding leaves of a number
size_sweep              synthetic networks over a size
collapse_bound_rows     the theorem layer by layer
metrics_over_layers     what a variant measures at each of its states: metrics, values, rows
value_gradients         gradients of attention by its values' weights
blocks_for_ablation     the anatomy of a model's blocks, and what keeps its attention from collapsing
network_variant_runs    run variants of a network side by side, and measure every state
"""
