"""Imported by the process that warm ones are forked from."""

from fuzz.forks import load_everything

load_everything()
