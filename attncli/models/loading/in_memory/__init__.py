"""Modules in the caller's process: measured in place and restored.

unwrap_models    remove DDP, torch.compile and PEFT wrappers from a model in training
restore_state    record what running a model changes, and restore it
in_memory_model  a user's module, measured in place
eval_mode        evaluation mode, for good or between two steps of training
"""
