"""The nulls that stand beside the numbers of heads: by which keys, and in which words."""

UNIFORM, RANDOM, SHUFFLED = "uniform", "random_init", "shuffled"

NULLS = {UNIFORM: "uniform attention", RANDOM: "random weights", SHUFFLED: "shuffled text"}
"""The keys under which nulls stand beside a number, in words."""
