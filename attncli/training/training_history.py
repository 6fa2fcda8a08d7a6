"""The reports of a run in a folder, one file per observation: `step-000050.json`.

`attn check`, `attn compare` and `attn sweep --glob '…/step-*.json'` read them.
"""

import re
from collections.abc import Iterator
from pathlib import Path

from attncli.errors import AttnError, InputError, format_count
from attncli.io.atomic_files import create_folder_if_missing, write_atomically
from attncli.records import Report
from attncli.render import FORMATS
from attncli.reports.json_report_reading import read_report

NAME = re.compile(r"step-(\d+)\.json")
REPLACED = "replaced"
"""Where reports go that a training which begins again would write over."""


class TrainingHistory:
    """A folder of reports, until it cannot be written any more."""

    def __init__(self, folder: Path | None) -> None:
        self.folder = folder
        self.ended = False
        """Whether saving has failed; the training goes on without it."""

    def move_later_reports_aside(self, step: int) -> str:
        """Move aside reports of later steps, left by an interrupted or earlier run. Returns a message."""
        if self.folder is None:
            return ""
        create_folder_if_missing(self.folder)
        later = [(number, path) for number, path in self.list_report_files() if number > step]
        if not later:
            return ""
        aside = self.folder / REPLACED
        create_folder_if_missing(aside)
        for _, path in later:
            path.replace(aside / path.name)
        return f"{format_count(len(later), 'report')} of steps after {step}, made by an earlier run: now in {aside}."

    def list_report_files(self) -> list[tuple[int, Path]]:
        """The reports' files by step."""
        if self.folder is None or not self.folder.is_dir():
            return []
        found = ((NAME.fullmatch(path.name), path) for path in self.folder.iterdir())
        return sorted((int(match[1]), path) for match, path in found if match)

    def iter_latest_reports(self, count: int) -> Iterator[tuple[int, Report]]:
        """The latest reports in order; files that are no reports are skipped."""
        for step, path in self.list_report_files()[-count:]:
            try:
                yield step, read_report(str(path))
            except InputError:
                continue

    def save_step_report(self, step: int, report: Report) -> str:
        """Save atomically. Returns a message if that failed."""
        if self.folder is None or self.ended:
            return ""
        text = FORMATS["json"](report)
        try:
            write_atomically(
                self.folder / f"step-{step:06d}.json",
                lambda path: path.write_text(text, encoding="utf-8"),
            )
        except AttnError as error:
            self.ended = True
            return f"{error} The history ends before step {step}; the training goes on."
        return ""
