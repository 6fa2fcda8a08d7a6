"""Trained checkpoints that install as packages, for the tests alone."""

import importlib.util
from pathlib import Path

import pytest


def trained(package: str, folder: str) -> str:
    """The folder of a checkpoint inside a package."""
    spec = importlib.util.find_spec(package)
    if spec is None or spec.origin is None:
        pytest.fail(f"README's second block installs {package}")
    return str(Path(spec.origin).parent / folder)
