"""Provenance of a report: the command line or call, and the versions that can change a number."""

import platform
import sys
from collections.abc import Sequence
from dataclasses import replace

from attncli import __version__
from attncli.records import Report

OF_MODELS = ("torch", "transformers", "tokenizers", "safetensors", "scipy", "accelerate")
"""Libraries that load and run a model, as far as they are installed; torch always is if one runs.
"""
LIBRARIES = ("numpy", *OF_MODELS)
"""Libraries that compute or read numbers."""


def add_provenance(report: Report, command: Sequence[str] | None = None) -> Report:
    """Add the provenance. It is deterministic: the same command gives the same bytes."""
    words = ["attn", *sys.argv[1:]] if command is None else command
    environment = {**describe_environment(), **report.environment}
    return replace(report, command=tuple(words), environment=environment)


def describe_environment() -> dict[str, str]:
    """Versions of the imported libraries; libraries that a model imports by itself are unknown."""
    of_a_model = OF_MODELS if "torch" in sys.modules else ()
    used = [name for name in LIBRARIES if name in of_a_model or name in sys.modules]
    found = {name: library_version(name) for name in used}
    versions = {name: words for name, words in found.items() if words is not None}
    here = {"attn": __version__, "python": platform.python_version()}
    return {**here, **versions, "machine": platform.machine()}


def library_version(name: str) -> str | None:
    """The package's version; torch itself adds its build."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        own = getattr(sys.modules.get(name), "__version__", None)
        return version(name) if own is None else str(own)
    except PackageNotFoundError:
        return None
