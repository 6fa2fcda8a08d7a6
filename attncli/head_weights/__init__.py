"""Single heads, read from a checkpoint's files without torch.

families           per model type: tensor names, layout, norm, positions; others are refused by name
configs            what config.json says about the attention
head_files         config and tensors of a folder, refused where a loaded model would be
head_projections   one head's part of any layout
head               W_Q, W_K and biases of one head, and what stands between its input and its logits
inputs_for_scores  the inputs that make a head show wanted queries and keys
in_memory_tensors  tensors of a model that is loaded, read as those of files
theorem_constants  what the theorem needs of a layer
head_products      W_QK and W_OV of every head
census             layer types, grouped queries, gates, as the config has them
"""
