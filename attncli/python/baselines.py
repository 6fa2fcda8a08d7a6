"""Options of a baseline: of `attn check`, of `report.check`, of a check of `attn ci`."""

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from attncli.declare.option_combination_rules import SetOption, refuse_or_drop_inapplicable_options
from attncli.declare.option_declarations import (
    Applies,
    collect_option_rules,
    declare_option,
    differs_from_option_default,
    list_parameters_of_option_group,
)
from attncli.declare.option_value_conversion import convert_to_option_value
from attncli.errors import NoBaseline, UsageError
from attncli.records import Report

if TYPE_CHECKING:
    from collections.abc import Iterable

    from attncli.gates import Condition
    from attncli.gates.baseline_changes import AllowedChange
    from attncli.records import Verdict

baseline_option = partial(declare_option, panel="Baseline")
TOGETHER = (
    "`baseline` and `fail_on` go together: give both, an earlier report and how far a number may be from it, such as "
    "'sink:p.05'."
)


@dataclass(frozen=True)
class BaselineOptions:
    """The earlier report and how far numbers may have changed since."""

    baseline: str | None = baseline_option(
        metavar="OLD.json",
        applies=Applies(needs=("fail_on",), why=TOGETHER),
        help="An earlier report; without the file the exit code is 5.",
    )
    fail_on: list[str] = baseline_option(
        default=[],
        metavar="METRIC:LIMIT",
        applies=Applies(needs=("baseline",), why=TOGETHER),
        help="Exit 1 if a number changed by more than noise explains: 'sink:p.05' (t-test over texts or seeds; about 5 % false "
        "alarms in all), or by more than a size: 'log10_residual:-0.5' (a fall), 'sink:5%' of the old number, 'sink:2s' "
        "standard deviations. min(), max(), mean() aggregate. Repeatable.",
    )
    family_wise: float | None = baseline_option(
        metavar="SHARE",
        applies=Applies(
            needs=("fail_on",),
            why="{name} corrects limits of `fail_on`: give one, such as 'sink:p.05'.",
        ),
        help="How often noise alone may fail any of several gates with p or s, as in .05: corrects for all of their "
        "values together.",
    )

    def parse_allowed_changes(self) -> "list[AllowedChange]":
        """Parse the conditions on changes before a file is read."""
        from attncli.gates.baseline_changes import parse_allowed_change, require_probability

        require_probability(self.family_wise)
        changes = [parse_allowed_change(text) for text in self.fail_on]
        if self.family_wise is not None and not any(
            change.is_limit_relative_to_noise for change in changes
        ):
            raise UsageError(
                "`family_wise` corrects limits by chance or in standard deviations, as in 'sink:p.05' and 'sink:2s', and no "
                "`fail_on` has one: leave it out.",
                about=["family_wise"],
            )
        return changes

    def decide_report_and_baseline_gates(
        self, report: Report, conditions: "Iterable[Condition]", old: Report | None
    ) -> "list[Verdict]":
        """Verdicts of conditions on the report itself, and on its changes since the baseline."""
        from attncli.gates import decide_report_gates
        from attncli.gates.baseline_changes import decide_baseline_gates

        found = decide_report_gates(report, conditions)
        if old is None:
            return found
        name = str(self.baseline)
        return found + decide_baseline_gates(
            report, old, self.parse_allowed_changes(), name, self.family_wise
        )

    def read_baseline_report(self) -> "Report | None":
        """Read the baseline; a typo in the conditions is reported before a missing file."""
        from attncli.reports.json_report_reading import is_existing_report, read_report

        if self.baseline is None:
            return None
        self.parse_allowed_changes()
        if not is_existing_report(self.baseline):
            raise NoBaseline(
                f"there is no baseline {self.baseline}: save a report there, and check again."
            )
        return read_report(self.baseline)


def build_baseline_options(
    baseline: object, fail_on: object, family_wise: object
) -> "tuple[BaselineOptions, Report | None]":
    """As Python gives them: the earlier report may be at hand."""
    baseline_report = baseline if isinstance(baseline, Report) else None
    set_keywords = {
        "baseline": AT_HAND if baseline_report is not None else baseline,
        "fail_on": fail_on,
        "family_wise": family_wise,
    }
    values = {
        name: convert_to_option_value(KEYWORDS[name], value) for name, value in set_keywords.items()
    }
    options = [
        SetOption(*one)
        for one in values.items()
        if differs_from_option_default(KEYWORDS[one[0]], one[1])
    ]
    refuse_or_drop_inapplicable_options(collect_option_rules(KEYWORDS.values()), options, None)
    return BaselineOptions(**values), baseline_report


KEYWORDS = {each.name: each for each in list_parameters_of_option_group(BaselineOptions)}
AT_HAND = "the earlier report"
"""How sentences call one that has no file."""
