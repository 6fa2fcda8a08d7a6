"""Curves of a report: in the terminal, or as a figure."""
