"""Reports that are finished, read back."""

import os
from os import PathLike

from attncli.errors import UsageError
from attncli.io.remote_files import is_address
from attncli.python.answers import Answer, require_path, to_answer
from attncli.reports import read_report
from attncli.reports.reading import STDIN


def read(path: str | PathLike[str]) -> Answer:
    """The report in a JSON file that `report.save` or `attn … -o FILE.json` has written."""
    name = path if isinstance(path, str) and is_address(path) else os.fspath(require_path(path))
    if name == STDIN:
        raise UsageError("`path` must name a file: '-' for stdin is the command line's alone.")
    return to_answer(read_report(name))
