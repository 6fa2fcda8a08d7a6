"""Trained models in local folders: which tensors are which head's queries and keys, read without torch.

tensors     a folder's safetensors files, one tensor at a time, bfloat16 included
families    per model type: tensor names, layout, norm, whether positions turn; others are refused by name
configs     what config.json says about the attention
heads       W_Q, W_K and biases of one head, and what stands between its input and its logits
"""

from attncli.checkpoints.heads import Head, read_head

__all__ = ["Head", "read_head"]
