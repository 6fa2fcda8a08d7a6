"""What the numbers of heads make of them.

roles            what a head's numbers make it
head_roles       the heads by their roles
linear_heads     the heads of linear layers, beside those of softmax
head_findings    what stands out in maps and states
weight_findings  what stands out in weights
"""
