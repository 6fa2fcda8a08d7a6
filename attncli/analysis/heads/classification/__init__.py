"""What the numbers of heads say: roles and findings.

roles         what a head's numbers make it
head_roles    the heads by their roles
linear_heads  the heads of linear layers, beside those of softmax
findings      what stands out in maps and states
"""
