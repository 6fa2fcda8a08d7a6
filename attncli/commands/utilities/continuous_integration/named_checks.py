"""The checks that a configuration file names: a command or a saved report, and the gates it must pass."""

import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from attncli.cli.config.command_line_only_options import refuse_command_line_only_options
from attncli.cli.config.config_file import ConfigFile
from attncli.cli.config.settings import CHECKS
from attncli.errors import UsageError, make_unknown_name_error
from attncli.records import Facts

FAMILY = "family-wise"
KEYS = ("command", "report", "fail-if", "baseline", "fail-on", FAMILY)
EXAMPLE = """[checks.collapse] with command = "rank-collapse ./checkpoint" and fail-if = ["…"]"""

APART = "run that command by itself with -o report.json, and let the check read the report"


@dataclass(frozen=True, slots=True)
class Check:
    """One named check."""

    name: str
    where: str
    command: tuple[str, ...]
    """The command line without `attn`; empty where the check reads a saved report."""
    report: str | None
    fail_if: list[str]
    baseline: str | None
    fail_on: list[str]
    family_wise: float | None

    @property
    def command_or_report_path(self) -> str:
        return shlex.join(("attn", *self.command)) if self.command else str(self.report)


def parse_configured_checks(file: ConfigFile | None) -> list[Check]:
    """Parse the checks, in the order of the file."""
    if file is None:
        return []
    table = file.values.get(CHECKS, {})
    if not isinstance(table, Mapping):
        raise UsageError(f"{file.format_key_location(CHECKS)}: checks are tables, as in {EXAMPLE}.")
    return [parse_configured_check(file, name, members) for name, members in table.items()]


def parse_configured_check(file: ConfigFile, name: str, table: object) -> Check:
    where = file.format_key_location(CHECKS, name)
    if not isinstance(table, Mapping):
        raise UsageError(f"{where}: a check is a table, as in {EXAMPLE}.")
    if not re.fullmatch(r"[\w .@+-]+", name):
        raise UsageError(f"{where}: '{name}' names a file too: write letters, digits, - and _.")
    for key in table:
        if key not in KEYS:
            error = make_unknown_name_error(f"key of the check '{name}'", key, KEYS)
            raise UsageError(f"{file.format_key_location(CHECKS, name, key)}: {error}")
    values = {key: parse_string_or_list(file, name, table, key) for key in KEYS if key != FAMILY}
    if bool(values["command"]) == bool(values["report"]):
        raise UsageError(f"{where}: the check '{name}' needs a command or a report, and not both.")
    if bool(values["baseline"]) != bool(values["fail-on"]):
        raise UsageError(f"{where}: baseline and fail-on go together: give both.")
    return Check(
        name,
        where,
        parse_check_command(file, name, values["command"]),
        next(iter(values["report"]), None),
        values["fail-if"],
        baseline=next(iter(values["baseline"]), None),
        fail_on=values["fail-on"],
        family_wise=parse_allowed_failure_rate(file, name, table, bool(values["fail-on"])),
    )


def parse_allowed_failure_rate(
    file: ConfigFile, name: str, table: Facts, judges: bool
) -> float | None:
    """Read the probability with which noise alone may fail the check."""
    value = table.get(FAMILY)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, float) or not 0.0 < value < 1.0:
        raise UsageError(
            f"{file.format_key_location(CHECKS, name, FAMILY)}: {FAMILY} must be a number between 0 and 1, as in 0.05."
        )
    if not judges:
        raise UsageError(
            f"{file.format_key_location(CHECKS, name, FAMILY)}: {FAMILY} goes with fail-on: give both."
        )
    return value


def parse_string_or_list(file: ConfigFile, name: str, table: Facts, key: str) -> list[str]:
    """One text, or a list of them for the gates."""
    value = table.get(key, [])
    several = key in ("fail-if", "fail-on")
    found = [value] if isinstance(value, str) else value
    if not isinstance(found, list) or (key in table and isinstance(value, list) and not several):
        found = [None]
    if not all(isinstance(text, str) and text for text in found):
        expected = "a text or a list of texts" if several else "a text"
        raise UsageError(
            f"{file.format_key_location(CHECKS, name, key)}: {key} must be {expected}."
        )
    return found


def parse_check_command(file: ConfigFile, name: str, command: list[str]) -> tuple[str, ...]:
    """The command line, split as a shell does."""
    try:
        found = list(split_command_into_words(command))
    except ValueError as error:
        where = file.format_key_location(CHECKS, name, "command")
        raise UsageError(f"{where}: cannot read the command: {str(error).lower()}.") from None
    refuse_command_line_only_options(
        found, file.format_key_location(CHECKS, name, "command"), APART
    )
    return tuple(found[1:] if found[:1] == ["attn"] else found)


def split_command_into_words(command: list[str]) -> Iterator[str]:
    for text in command:
        yield from shlex.split(text)
