"""Reports that are finished: read back, put side by side."""

import os
from os import PathLike

from attncli.api.answers import Answer, answer
from attncli.errors import UsageError
from attncli.gates import require_share
from attncli.records import Report
from attncli.reports import read as read_report
from attncli.reports.provenance import with_provenance
from attncli.studies.reports.differences import compare as differences

Saved = str | PathLike[str] | Report


def read(path: str | PathLike[str]) -> Answer:
    """The report in a JSON file that `report.save` or `attn … -o FILE.json` has written."""
    return answer(read_report(os.fspath(path)))


def compare(old: Saved, new: Saved, top: int = 20, family_wise: float | None = None) -> Answer:
    """What moved between two reports, in spreads; `top`: how many changes the table shows.

    `family_wise`: how often noise alone may make any of the numbers count as clear of it, such as 0.05.
    """
    require_share(family_wise)
    if top < 0:
        raise UsageError(f"`top` must be 0 or more, not {top}.")
    names = (name_of(old, "old"), name_of(new, "new"))
    found = differences(finished(old), finished(new), names, top, family_wise)
    return answer(with_provenance(found, [f"attncli.compare({', '.join(map(repr, names))})"]))


def finished(saved: Saved) -> Report:
    return saved if isinstance(saved, Report) else read(saved)


def name_of(saved: Saved, otherwise: str) -> str:
    """A file by its path, a report at hand by the parameter that it is."""
    return otherwise if isinstance(saved, Report) else os.fspath(saved)
