"""Names of the controls of heads' numbers: their keys and their labels."""

UNIFORM, RANDOM, SHUFFLED = "uniform", "random_init", "shuffled"

NULLS = {UNIFORM: "uniform attention", RANDOM: "random weights", SHUFFLED: "shuffled text"}
"""Keys and labels of the controls."""
