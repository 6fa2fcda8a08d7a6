"""One check of `attn ci`: its report, and the verdicts on it."""

import os
import shlex
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from attncli.cli.command_tree import (
    CommandPath,
    command_words_of_context,
    is_typed_on_command_line,
    parse_command,
    root_command,
)
from attncli.cli.parameter_names_as_options import replace_parameters_by_options
from attncli.errors import AttnError, NoBaseline, UsageError
from attncli.records import Report, Verdict

if TYPE_CHECKING:
    from attncli.commands.utilities.continuous_integration.named_checks import Check
    from attncli.gates.baseline_changes import AllowedChange


@dataclass(frozen=True, slots=True)
class CheckResult:
    """How a check has ended."""

    code: int
    verdicts: tuple[Verdict, ...]
    report: Report | None = None
    """The report of the run; None where the check could not run."""
    against: Report | None = None
    """The baseline, where there is one."""


def run_check_and_catch_errors(
    check: "Check", scratch: Path, accepting: bool = False
) -> CheckResult:
    """Run one check and return its exit code and verdicts; an error is a verdict too. When
    accepting, changes are not tested."""
    try:
        return run_check_and_evaluate_gates(check, scratch, accepting)
    except AttnError as error:
        return CheckResult(error.exit_code, (make_gate_verdict_of_failed_run(check, error),))


def run_check_and_evaluate_gates(check: "Check", scratch: Path, accepting: bool) -> CheckResult:
    """Gates and the baseline are read before the work, so that a misprint costs no run; a baseline may be missing."""
    from attncli import gates
    from attncli.python.baselines import BaselineOptions
    from attncli.reports.json_report_reading import is_existing_report, read_report

    refuse_ci_inside_ci(check)
    conditions = [gates.parse_condition(text) for text in check.fail_if]
    against = BaselineOptions(check.baseline, check.fail_on, check.family_wise)
    changes = against.parse_allowed_changes()
    old = (
        against.read_baseline_report()
        if check.baseline and is_existing_report(check.baseline)
        else None
    )
    report = (
        run_or_read_check_report(check, scratch)
        if check.command
        else read_report(str(check.report))
    )
    verdicts = (
        list(report.verdicts) if check.command else gates.decide_report_gates(report, conditions)
    )
    if check.baseline and not accepting:
        try:
            verdicts += evaluate_changes_since_baseline(check, report, old, changes)
        except NoBaseline as error:
            found = (
                *add_check_name_to_gate_verdicts(check, verdicts),
                make_gate_verdict_of_failed_run(check, error),
            )
            return CheckResult(error.exit_code, found, report)
    found = add_check_name_to_gate_verdicts(
        check, verdicts or report.verdicts or [Verdict("ran", False, "no gates")]
    )
    return CheckResult(int(any(one.failed for one in found)), found, report, old)


def refuse_ci_inside_ci(check: "Check") -> None:
    if check.command and command_words_of_context(parse_command(check.command)) == ("ci",):
        raise UsageError("a check that runs `attn ci` would run itself, again and again.")


def add_check_name_to_gate_verdicts(
    check: "Check", verdicts: Iterable[Verdict]
) -> tuple[Verdict, ...]:
    return tuple(replace(one, condition=f"{check.name}: {one.condition}") for one in verdicts)


def evaluate_changes_since_baseline(
    check: "Check", report: Report, old: Report | None, changes: "list[AllowedChange]"
) -> list[Verdict]:
    """Return verdicts on the changes since the baseline; without a baseline, one that names the
    command to accept it."""
    from attncli.gates.baseline_changes import decide_baseline_gates

    if old is None:
        raise NoBaseline(
            f"there is no baseline {check.baseline}: `{build_accept_baseline_command(check.name)}` makes one of this run's report."
        )
    try:
        return decide_baseline_gates(report, old, changes, str(check.baseline), check.family_wise)
    except NoBaseline as error:
        sentence = str(error).partition(": ")[0]
        raise NoBaseline(
            f"{sentence}: `{build_accept_baseline_command(check.name)}` accepts the new report."
        ) from None


def build_accept_baseline_command(name: str) -> str:
    """The command line that makes the check's report its baseline."""
    from attncli.cli.config.settings import CONFIG

    config = os.environ.get(CONFIG)
    words = ["attn", "ci", "--accept", name, *(["--config", config] if config else [])]
    return shlex.join(words)


def make_gate_verdict_of_failed_run(check: "Check", error: AttnError) -> Verdict:
    return Verdict(
        check.name,
        True,
        f"exit {error.exit_code}: {replace_parameters_by_options(str(error))}",
        stopped=True,
    )


def run_or_read_check_report(check: "Check", scratch: Path) -> Report:
    from attncli.processes.command_in_subprocess import RunStopped, run_command_to_report_file
    from attncli.reports.json_report_reading import read_report

    path = scratch / f"{check.name}.json"
    run = run_command_to_report_file([*check.command, *select_gates_for_command_line(check)], path)
    if not run.has_report:
        raise RunStopped(run.code, run.sentence)
    # without the place of this run: the same numbers give the same bytes
    own = (
        "attn",
        *check.command,
    )
    return replace(read_report(str(path)), command=own)


def select_gates_for_command_line(check: "Check") -> list[str]:
    """List the check's gates for its command line if they can be validated before the run and add
    metrics to it.

    Gates on a command line replace the command's default gates; gates of a check are added to them.
    """
    own, line = check.fail_if, parse_command(check.command)
    if own and not is_typed_on_command_line(line, "fail_if"):
        own = [*read_configured_gates(command_words_of_context(line)), *own]
    return [f"--fail-if={gate}" for gate in own]


def read_configured_gates(command: CommandPath) -> list[str]:
    from attncli.cli.config.settings import collect_option_settings

    found = collect_option_settings(root_command()).get((command, "fail_if"))
    return [str(gate) for gate in found.value] if found else []
