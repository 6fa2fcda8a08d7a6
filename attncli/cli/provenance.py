"""What a report says about the run: the command line and the versions that can change a number."""

import platform
import sys

from attncli.records import Report


def with_provenance(report: Report) -> Report:
    """Nothing in here changes from one run to the next: the same command gives the same bytes."""
    import numpy

    environment = {
        "python": platform.python_version(),
        "numpy": numpy.__version__,
        "machine": platform.machine(),
    }
    return report.with_command(["attn", *sys.argv[1:]], environment)
