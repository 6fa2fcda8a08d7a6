"""Reports that are finished, read back."""

import os
from os import PathLike

from attncli.api.answers import Answer, answer
from attncli.reports import read as read_report


def read(path: str | PathLike[str]) -> Answer:
    """The report in a JSON file that `report.save` or `attn … -o FILE.json` has written."""
    return answer(read_report(os.fspath(path)))
