"""Run a model again under fixed conditions.

fixed_rng           runs of a model that draws numbers, made alike
float64             models in float64 that stay there
perturbed_rounding  blocks that compute with disturbed last bits
"""
