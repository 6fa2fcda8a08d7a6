"""`attn ci`"""

from pathlib import Path
from typing import TYPE_CHECKING

from attncli.cli.typer_options import flatten_option_groups
from attncli.declare.option_declarations import WRITES, declare_argument, declare_option
from attncli.errors import AttnError, UsageError, capitalize_first_letter, require_known_names
from attncli.io.atomic_files import create_folder_if_missing, resolve_symbolic_links
from attncli.io.remote_files import is_remote_url, join_path_or_url
from attncli.options.run_and_output import OutputOptions
from attncli.options.value_completion import make_name_completer
from attncli.records import Definition, Report, Row, View

if TYPE_CHECKING:
    from attncli.commands.utilities.continuous_integration.check_runs import CheckResult
    from attncli.commands.utilities.continuous_integration.named_checks import Check

EXAMPLES = """
attn ci                                     # every check in attn.toml, or pyproject.toml
attn ci collapse --config checks.toml --format github
attn ci --keep reports/                     # also keep the reports, as reports/CHECK.json
attn ci --accept collapse                   # show what changed, then make its report the baseline
"""

EXIT_CODE = Definition(
    "exit code", "What the check ends with: 0 passed, 1 failed, else it was stopped."
)


def list_configured_check_names() -> list[str]:
    """List the checks of the configuration file, or of the file named on the line; none if it is
    broken."""
    from attncli.cli.config.settings import load_config_file
    from attncli.cli.shell_completion import find_config_argument
    from attncli.commands.utilities.continuous_integration.named_checks import (
        parse_configured_checks,
    )

    try:
        return [
            one.name for one in parse_configured_checks(load_config_file(find_config_argument()))
        ]
    except AttnError:
        return []


@flatten_option_groups
def ci(
    *,
    names: list[str] | None = declare_argument(
        default=None,
        metavar="[CHECK]…",
        help="Checks to run. [default: all in the file]",
        complete=make_name_completer(list_configured_check_names),
    ),
    keep: str | None = declare_option(
        metavar="FOLDER",
        applies=WRITES,
        help=(
            "Keep the reports in FOLDER, as CHECK.json; a baseline there is not overwritten (the new report is "
            "CHECK.new.json)."
        ),
    ),
    accept: bool = declare_option(
        default=False,
        applies=WRITES,
        help=(
            "Show what changed, then make the reports the baselines: of all checks that have one, or of those "
            "named."
        ),
    ),
    output: OutputOptions,
) -> int:
    """Do the checks in the configuration file pass?

    A check runs a command, or reads a saved report, and tests it against its gates and its baseline. If a check cannot
    run, `attn ci` prints the reason, continues with the rest, and exits with the code of what stopped it: 5 where there
    is no baseline yet, which `attn ci --accept CHECK` makes from the check's report.
    """
    import tempfile

    from attncli import gates
    from attncli.cli.config.settings import load_config_file
    from attncli.cli.report_writer import validate_output_options, write_report
    from attncli.commands.utilities.continuous_integration.check_runs import (
        run_check_and_catch_errors,
    )
    from attncli.commands.utilities.continuous_integration.named_checks import (
        parse_configured_checks,
    )
    from attncli.reports.provenance import add_provenance

    conditions = validate_output_options(output)
    every = parse_configured_checks(load_config_file())
    checks = select_checks_by_name(every, names or [])
    if accept:
        from attncli.commands.utilities.continuous_integration.baseline_acceptance import (
            require_checks_with_baselines,
        )

        checks = require_checks_with_baselines(checks, names or [])
    if keep is not None and not is_remote_url(keep):
        create_folder_if_missing(Path(keep))
    with tempfile.TemporaryDirectory(prefix="attn-") as scratch:
        results = {
            check.name: run_check_and_catch_errors(check, Path(scratch), accept) for check in checks
        }
    if keep is not None:
        save_check_reports(
            results, keep, {canonical_report_path(one.baseline) for one in every if one.baseline}
        )
    report = add_provenance(build_ci_report(checks, results, accept))
    report = report.with_verdicts(
        [*report.verdicts, *gates.decide_report_gates(report, conditions)]
    )
    code = gates.worst_exit_code(
        [write_report(report, output), *(one.code for one in results.values())]
    )
    if accept:
        from attncli.commands.utilities.continuous_integration.baseline_acceptance import (
            write_accepted_baselines,
        )

        write_accepted_baselines(checks, results)
    return code


def build_ci_report(
    checks: "list[Check]", results: "dict[str, CheckResult]", accept: bool
) -> Report:
    if not accept:
        return build_exit_code_report_of_checks(results)
    from attncli.commands.utilities.continuous_integration.baseline_acceptance import (
        build_acceptance_report,
    )

    return build_acceptance_report(checks, results)


def save_check_reports(results: "dict[str, CheckResult]", folder: str, baselines: set[str]) -> None:
    """Write every report, whatever its verdicts; only --accept writes a baseline."""
    from attncli.commands.utilities.continuous_integration.baseline_acceptance import (
        save_report_as_json,
    )

    for name, one in results.items():
        place = join_path_or_url(folder, f"{name}.json")
        if one.report is not None:
            save_report_as_json(
                one.report,
                join_path_or_url(folder, f"{name}.new.json")
                if canonical_report_path(place) in baselines
                else place,
            )


def canonical_report_path(place: str) -> str:
    """However a file is spelled; an address has one spelling."""
    return place if is_remote_url(place) else str(resolve_symbolic_links(Path(place)))


def select_checks_by_name(checks: "list[Check]", names: list[str]) -> "list[Check]":
    from attncli.commands.utilities.continuous_integration.named_checks import EXAMPLE

    if not checks:
        raise UsageError(
            f"no checks are configured: write {EXAMPLE} into attn.toml or [tool.attn]."
        )
    by_name = {check.name: check for check in checks}
    require_known_names("check", names, by_name)
    return [by_name[name] for name in dict.fromkeys(names or by_name)]


def build_exit_code_report_of_checks(results: "dict[str, CheckResult]") -> Report:
    codes = {name: one.code for name, one in results.items()}
    rows = (
        Row("exit_code", code, EXIT_CODE.unit, keys={"check": name}) for name, code in codes.items()
    )
    return Report(
        study="ci",
        headline=format_passed_checks_headline(codes),
        rows=tuple(rows),
        metrics={"exit_code": EXIT_CODE},
        source={"kind": "checks"},
        views=(View("Checks", "check", ("exit_code",)),),
        verdicts=tuple(verdict for one in results.values() for verdict in one.verdicts),
    )


def format_passed_checks_headline(codes: dict[str, int]) -> str:
    """`1 of 3 checks passed; failed: a; could not run: b.`"""
    kinds = {
        "failed": [name for name, code in codes.items() if code == 1],
        "could not run": [name for name, code in codes.items() if code > 1],
    }
    wrong = [f"{kind}: {', '.join(names)}" for kind, names in kinds.items() if names]
    passed = sum(code == 0 for code in codes.values())
    if passed == len(codes):
        wrong = [f"all {passed} checks passed" if passed > 1 else "the check passed"]
    elif len(codes) > 1:
        wrong.insert(0, f"{passed or 'none'} of {len(codes)} checks passed")
    return capitalize_first_letter("; ".join(wrong)) + "."
