"""fits."""
