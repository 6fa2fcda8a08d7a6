"""What a report says about the run: the command line and the versions that can change a number."""

import platform
import sys

from attncli import __version__
from attncli.records import Report


def with_provenance(report: Report) -> Report:
    """Nothing in here changes from one run to the next: the same command gives the same bytes."""
    environment = {"attn": __version__, "python": platform.python_version()}
    if "numpy" in sys.modules:  # what was not used cannot change a number
        environment["numpy"] = sys.modules["numpy"].__version__
    environment["machine"] = platform.machine()
    return report.with_command(["attn", *sys.argv[1:]], environment)
