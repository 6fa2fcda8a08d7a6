"""Measure the fits of a file again."""

from pathlib import Path

from attncli.analysis.fits.pictures import add_pictures
from attncli.analysis.source_arguments import refuse_files_of_wrong_kind
from attncli.commands.verify_fit.report import verify_fit_file
from attncli.fits._fit_files import read_fits
from attncli.python.questions import RunContext
from attncli.records import Report


def measure_fit_file(path: Path, how: RunContext) -> Report:
    """Verify every fit of the file, with plots of its maps if the output has plots."""
    refuse_files_of_wrong_kind(str(path), "verify_fit")
    report = verify_fit_file(path, how.progress)
    return add_pictures(report, read_fits(path)[0]) if how.pictures or how.maps else report
