"""Classify heads from their numbers: roles and findings.

role_rules                 thresholds of each role
head_roles                 the heads by their roles
linear_attention_findings  the heads of linear layers, compared with softmax heads
head_and_outlier_findings  what stands out among heads, maps and states

    >>> from attncli.analysis.heads.classification.role_rules import classify_role
    >>> of_uniform_attention = {"sink_max": 0.1, "previous_token": 0.1}
    >>> classify_role({"sink_max": 0.8, "previous_token": 0.1}, of_uniform_attention).name
    'sink'
"""
