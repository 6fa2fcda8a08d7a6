"""Modules that live in the caller's process: measured in place and restored.

unwrap           a model as it is trained: out of what it is wrapped in
restore_state    what running a model changes of it, put back
in_memory_model  a module of the caller's own, measured in place
eval_mode        a model at rest, for good or between two steps of its training
"""
