"""How much of the output travels through paths of each length?

network_paths       synthetic networks, by length
path_terms          their terms
path_samples        their single paths
path_heads          their output by heads
model_paths         models, by length
path_subject        a model and the stack that is taken apart
path_model_singles  its single paths
path_model_heads    its output by heads
path_model_steps    its output by attentions and MLPs
sensitivity         how its last token moves with the others
sensitivity_rows    the same as rows and in words
path_maps           its attention maps along a path
path_choices        paths as they are written
path_measures       what is measured of a decomposition
path_words          what is said of it
task_paths          what a few paths of trained networks do alone
task_path_sums      sums of paths
task_path_words     what is said of them
"""
