"""A model run under terms of ours.

chance     runs of a model that draws numbers, made alike
float64    models in float64 that stay there
disturbed  blocks that compute with disturbed last bits
"""
