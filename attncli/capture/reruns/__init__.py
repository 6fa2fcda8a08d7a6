"""Run a model again under fixed conditions.

fixed_rng           the same random numbers in every run
float64             float64 models that stay in float64
perturbed_rounding  blocks that compute with perturbed last bits
"""
