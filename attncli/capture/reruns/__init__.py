"""Run a model again under fixed conditions.

seed_and_precision  the same random numbers in every run, and float64 models that stay in float64
perturbed_rounding  blocks that compute with perturbed last bits
"""
