"""What a report says about the run: the command line and the versions that can change a number."""

import platform
import sys
from importlib.metadata import PackageNotFoundError, version

from attncli import __version__
from attncli.records import Report

OF_MODELS = ("torch", "transformers", "tokenizers", "safetensors", "scipy")
"""What a model is loaded and run with; torch is there whenever one is."""
LIBRARIES = ("numpy", *OF_MODELS, "accelerate")
"""Whose code computes or reads numbers."""


def with_provenance(report: Report) -> Report:
    """Nothing in here changes from one run to the next: the same command gives the same bytes."""
    return report.with_command(["attn", *sys.argv[1:]], environment())


def environment() -> dict[str, str]:
    """What was not used cannot change a number; which libraries a model calls on its way is not for us to know."""
    used = [name for name in LIBRARIES if name in sys.modules]
    if "torch" in used:
        used = [name for name in LIBRARIES if name in used or name in OF_MODELS]
    versions = {name: version_of(name) for name in used}
    here = {"attn": __version__, "python": platform.python_version()}
    return {**here, **versions, "machine": platform.machine()}


def version_of(name: str) -> str:
    """As the library itself says, builds such as +cpu included; of one that is not imported, its package's."""
    try:
        own = getattr(sys.modules.get(name), "__version__", None)
        return str(own if own is not None else version(name))
    except PackageNotFoundError:
        return "not installed"
