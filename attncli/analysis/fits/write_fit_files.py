"""Write fitted modules to a file."""

from collections.abc import Sequence
from pathlib import Path

from attncli.errors import UsageError
from attncli.fits import FitRequest
from attncli.fits._fit_files import SavedFit, build_fit_metadata, collect_tensors_of_fits
from attncli.io.tensor_files import save_safetensors_and_report
from attncli.progress import Say


def write_fits(
    path: Path,
    fits: Sequence[SavedFit],
    request: FitRequest,
    say: Say,
    patterns: Sequence[str] = (),
) -> None:
    """Write one file for all patterns, numbered in the requested order."""
    if not fits:
        raise UsageError(
            f"no method made a module to write to {path}: allow more width or another method."
        )
    save_safetensors_and_report(
        path, collect_tensors_of_fits(fits), build_fit_metadata(fits, request, patterns), say
    )
