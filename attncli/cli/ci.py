"""`attn ci`"""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from attncli.cli.groups import grouped
from attncli.cli.options import Option, OutputOptions
from attncli.errors import AttnError, UsageError, unknown_name
from attncli.records import Definition, Report, Row, Verdict, View

if TYPE_CHECKING:
    from attncli.cli.checks import Check

EXAMPLES = """
attn ci                                     every check of [tool.attn] in pyproject.toml
attn ci collapse --config attn.toml --format github
attn ci --keep reports/                     the reports, to become baselines
"""

EXIT_CODE = Definition("exit code", "What the check ends with: 0 passed, 1 failed, else it was stopped.")  # fmt: skip


@grouped
def ci(
    *,
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="[CHECK]…", help="[default: all of the file]", show_default=False),
    ] = None,
    keep: Annotated[
        Path | None,
        Option(metavar="FOLDER", help="Keep the reports there, as CHECK.json."),
    ] = None,
    output: OutputOptions,
) -> int:
    """Do the checks that the configuration file names pass?

    A check runs a command, or reads a saved report, and holds it against its gates and its baseline. One that cannot
    run is told with its reason, and the rest go on; the exit code is then that of what stopped it.
    """
    import tempfile

    from attncli import gates
    from attncli.cli.checks import checks_of
    from attncli.cli.files import require_folder
    from attncli.cli.provenance import with_provenance
    from attncli.cli.settings import current_file
    from attncli.cli.writer import prepare, write

    conditions = prepare(output)
    checks = chosen(checks_of(current_file()), names or [])
    with tempfile.TemporaryDirectory(prefix="attn-") as scratch:
        folder = keep or Path(scratch)
        require_folder(folder)
        results = {check.name: result(check, folder / f"{check.name}.json") for check in checks}
    report = with_provenance(summary(results))
    report = report.with_verdicts([*report.verdicts, *gates.decide(report, conditions)])
    return gates.worst([write(report, output), *(code for code, _ in results.values())])


def chosen(checks: "list[Check]", names: list[str]) -> "list[Check]":
    from attncli.cli.checks import EXAMPLE

    if not checks:
        raise UsageError(
            f"no checks are configured: write {EXAMPLE} into attn.toml or [tool.attn]."
        )
    by_name = {check.name: check for check in checks}
    for name in names:
        if name not in by_name:
            raise unknown_name("check", name, by_name)
    return [by_name[name] for name in dict.fromkeys(names or by_name)]


def result(check: "Check", path: Path) -> tuple[int, list[Verdict]]:
    """The exit code of one check, and what it is from; an error is a verdict too."""
    try:
        verdicts = judged(check, path)
    except AttnError as error:
        return error.exit_code, [stopped(check, error)]
    verdicts = verdicts or [Verdict("ran", False, "no gates")]
    named = [replace(one, condition=f"{check.name}: {one.condition}") for one in verdicts]
    return int(any(one.failed for one in named)), named


def stopped(check: "Check", error: AttnError) -> Verdict:
    return Verdict(check.name, True, f"exit {error.exit_code}: {error}", stopped=True)


def judged(check: "Check", path: Path) -> list[Verdict]:
    """Gates are read before the work, so that a misprint costs no run."""
    from attncli import gates
    from attncli.cli.check import BaselineOptions
    from attncli.reports import read

    conditions = [gates.parse(text) for text in check.fail_if]
    against = BaselineOptions(check.baseline, check.fail_on)
    changes, old = against.changes(), against.read()
    report = made(check, path) if check.command else read(str(check.report))
    verdicts = list(report.verdicts) if check.command else []  # gates of the command line itself
    verdicts += gates.decide(report, conditions)
    if old is not None:
        verdicts += gates.decide_changes(report, old, changes, str(check.baseline))
    return verdicts or list(report.verdicts)


def made(check: "Check", path: Path) -> Report:
    from attncli.cli.runs import Stopped, run_to_file
    from attncli.reports import read

    path.unlink(missing_ok=True)
    run = run_to_file(check.command, path)
    if not run.finished:
        raise Stopped(run.code, run.sentence)
    return read(str(path))


def summary(results: dict[str, tuple[int, list[Verdict]]]) -> Report:
    codes = {name: code for name, (code, _) in results.items()}
    rows = (
        Row("exit_code", code, EXIT_CODE.unit, keys={"check": name}) for name, code in codes.items()
    )
    return Report(
        study="ci",
        headline=headline(codes),
        rows=tuple(rows),
        metrics={"exit_code": EXIT_CODE},
        source={"kind": "checks"},
        views=(View("Checks", "check", ("exit_code",)),),
        verdicts=tuple(verdict for _, verdicts in results.values() for verdict in verdicts),
    )


def headline(codes: dict[str, int]) -> str:
    """`3 checks: 1 passed, failed: a, stopped: b`"""
    kinds = {"failed": [n for n, c in codes.items() if c == 1], "stopped": [n for n, c in codes.items() if c > 1]}  # fmt: skip
    passed = sum(code == 0 for code in codes.values())
    parts = [f"{passed} of {len(codes)} checks passed"]
    parts += [f"{kind}: {', '.join(names)}" for kind, names in kinds.items() if names]
    return "; ".join(parts) + "."
