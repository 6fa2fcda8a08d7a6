"""Classify heads from their numbers: roles and findings.

role_rules    thresholds of each role
head_roles    the heads by their roles
linear_heads  the heads of linear layers, compared with softmax heads
findings      outliers in maps and states
"""
