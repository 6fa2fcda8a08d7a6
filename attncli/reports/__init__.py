"""Finished reports: read back from JSON, and put side by side. No model, no numpy."""

from attncli.reports.pairs import Pair, aggregated, side_by_side
from attncli.reports.reading import from_json, is_there, read

__all__ = ["Pair", "aggregated", "from_json", "is_there", "read", "side_by_side"]
