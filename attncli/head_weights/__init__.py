"""Read single heads from a checkpoint's files, without torch.

model_families                per model type: tensor names, layout, norm, positions; others are refused by name
head_configs                  the attention settings of config.json
head_files                    config and tensors of a folder, refused where a loaded model would be
head_projections              one head's part of any layout
trained_head                  W_Q, W_K and biases of one head, and the steps between its input and its logits
inputs_for_requested_queries  the inputs that make a head show requested queries and keys
in_memory_tensors             tensors of a loaded model, with the interface of those in files
collapse_bound_constants      the theorem's constants of a layer
qk_ov_products                W_QK and W_OV of every head
attention_kind_counts         layer types, grouped queries, gates, as the config has them

    >>> from attncli.head_weights.model_families import find_model_family
    >>> family = find_model_family("config.json", {"model_type": "bert"})
    >>> family.query.format(l=0)
    'encoder.layer.0.attention.self.query'
"""
