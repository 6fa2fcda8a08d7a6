"""Synthetic transformers, computed in c+R form: what they are (`spec`), their weights (`generated`, `files`), one layer's step (`layer`)."""
