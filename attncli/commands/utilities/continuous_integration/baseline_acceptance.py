"""`attn ci --accept`: show what changed in each report, then make the reports the baselines."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from attncli.commands.utilities.continuous_integration.check_runs import CheckResult
from attncli.errors import UsageError, format_count
from attncli.io.atomic_files import (
    create_folder_if_missing,
    require_writable_file_or_address,
    write_file_or_address,
)
from attncli.io.remote_files import is_remote_url
from attncli.records import Finding, Report, Row, View
from attncli.render import FORMATS
from attncli.reports.report_comparison import compare_reports

if TYPE_CHECKING:
    from attncli.commands.utilities.continuous_integration.named_checks import Check

TOP = 20
"""Changes that are shown of each check."""


def require_checks_with_baselines(checks: "Sequence[Check]", named: Sequence[str]) -> "list[Check]":
    """The checks that have a baseline, their files writable."""
    chosen = [check for check in checks if check.baseline]
    without = [check.name for check in checks if not check.baseline and check.name in named]
    if without or not chosen:
        name = without[0] if without else checks[0].name
        raise UsageError(
            f"the check '{name}' has no baseline to accept: give it baseline and fail-on."
        )
    for check in chosen:
        place = str(check.baseline)
        if not is_remote_url(place):
            create_folder_if_missing(Path(place).parent)
        require_writable_file_or_address(place)
    return chosen


def select_passed_ci_checks(
    checks: "Sequence[Check]", results: Mapping[str, CheckResult]
) -> "list[Check]":
    """The checks whose report exists and passes the gates that need no baseline."""
    return [check for check in checks if results[check.name].code == 0]


def build_acceptance_report(
    checks: "Sequence[Check]", results: Mapping[str, CheckResult]
) -> Report:
    """Report the changes of every check."""
    compared = {
        check.name: compare_report_with_baseline(check, results[check.name]) for check in checks
    }
    names = [check.name for check in select_passed_ci_checks(checks, results)]
    left = [name for name in results if name not in names]
    sentences = [f"accepted: {', '.join(names)}"] * bool(names)
    sentences += [f"not accepted, the baseline stays: {', '.join(left)}"] * bool(left)
    return Report(
        study="ci accept",
        headline="; ".join(sentences) + ".",
        rows=tuple(
            row for name, one in compared.items() for row in add_check_name_to_rows(name, one)
        ),
        metrics={name: d for one in compared.values() for name, d in one.metrics.items()},
        source={"kind": "checks"},
        views=(
            View("What is accepted", "check", (), findings="against its baseline"),
            *(
                view
                for name, one in compared.items()
                for view in add_check_name_to_tables(name, one)
            ),
        ),
        findings=tuple(Finding(name, one.headline) for name, one in compared.items()),
        warnings=tuple(
            f"{name}: {text}" for name, one in compared.items() for text in one.warnings
        ),
        verdicts=tuple(verdict for one in results.values() for verdict in one.verdicts),
    )


def compare_report_with_baseline(check: "Check", result: CheckResult) -> Report:
    """Compare the new report with the baseline; where either is missing, the comparison is empty."""
    if result.report is not None and result.against is not None:
        return compare_reports(
            result.against, result.report, (str(check.baseline), "this run"), TOP
        )
    words = (
        "could not run"
        if result.report is None
        else f"the first baseline: {format_count(len(result.report.rows), 'number')}"
    )
    return Report("compare", words, (), {}, {})


def add_check_name_to_rows(name: str, compared: Report) -> Sequence[Row]:
    return [replace(row, keys={**row.keys, "check": name}) for row in compared.rows]


def add_check_name_to_tables(name: str, compared: Report) -> Sequence[View]:
    return [
        replace(view, title=f"{name}: {view.title}", where={**view.where, "check": name})
        for view in compared.views
    ]


def write_accepted_baselines(checks: "Sequence[Check]", results: Mapping[str, CheckResult]) -> None:
    for check in select_passed_ci_checks(checks, results):
        report = results[check.name].report
        assert report is not None
        save_report_as_json(report, str(check.baseline))


def save_report_as_json(report: Report, place: str) -> None:
    """A report as the commands write it."""
    write_file_or_address(place, FORMATS["json"](report).encode(errors="backslashreplace"))
