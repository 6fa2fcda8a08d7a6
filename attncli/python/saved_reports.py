"""Reports that are finished, read back."""

import os
from os import PathLike

from attncli.errors import UsageError
from attncli.io.addresses import is_address
from attncli.python.answers import Answer, answer, path_given
from attncli.reports import read as read_report
from attncli.reports.reading import STDIN


def read(path: str | PathLike[str]) -> Answer:
    """The report in a JSON file that `report.save` or `attn … -o FILE.json` has written."""
    name = path if isinstance(path, str) and is_address(path) else os.fspath(path_given(path))
    if name == STDIN:
        raise UsageError("`path` must name a file: '-' for stdin is the command line's alone.")
    return answer(read_report(name))
