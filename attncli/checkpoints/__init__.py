"""Checkpoints: the one room that knows torch and transformers, and reads files without them where that will do.

sources    what SOURCE names, in one reading for all commands
files      a checkpoint's files
heads      single heads and their weights, read without torch
loading    a checkpoint as a model, strictly
random     any model type with seeded random weights
inputs     what a model reads
structure  its blocks, found by watching it
streaming  its attention in strips of rows, handed on and dropped
ablation   its skips, MLPs and norms switched off, on its own code
exact      its stream as a tensor that carries the common row apart: no float floor
paths      its output taken apart with all that is not linear frozen: by path length, paths, heads, input tokens
"""
