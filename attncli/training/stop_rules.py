"""Conditions that stop a training or warn: those of `--fail-if`, decided by the gates' own code."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from attncli import gates
from attncli.errors import UsageError
from attncli.gates import Condition
from attncli.records import Definition, Report, Verdict
from attncli.training.metric_growth import GROWTH, HEALTH, LEFT, LIMITS

ConditionTexts = str | Iterable[str] | None
"""One condition or several, as a caller gives them."""


def parse_stop_conditions(texts: Iterable[str]) -> tuple[Condition, ...]:
    return tuple(map(gates.parse_condition, texts))


@dataclass(frozen=True)
class StopDecisions:
    """The decisions on one observation."""

    verdicts: tuple[Verdict, ...]
    stops: str
    """Why the training must stop; empty if it need not."""
    warns: Mapping[str, str]
    """Warnings, by condition."""


@dataclass(frozen=True)
class StopRules:
    """The conditions of a training."""

    stop: tuple[Condition, ...]
    warn: tuple[Condition, ...]

    @property
    def stop_and_warn_conditions(self) -> tuple[Condition, ...]:
        return (*self.stop, *self.warn)

    def refuse_unmeasured_conditions(
        self, measured: Mapping[str, Definition], others: Sequence[str]
    ) -> None:
        """Refuse conditions on metrics that are not measured, before the training."""
        limited = [name for name in self.find_metric_limits() if name in measured]
        known = {
            *measured,
            *(f"{name}{GROWTH}" for name in measured),
            *(f"{name}{LEFT}" for name in limited),
        }
        for condition in self.stop_and_warn_conditions:
            if condition.metric in others and condition.metric not in known:
                raise UsageError(
                    f"the gate '{condition.text}' needs {condition.metric}, which is not measured: add it to `metrics`."
                )
        gates.refuse_gates_on_unmeasured_metrics(self.stop_and_warn_conditions, known, others)

    def list_metrics_with_growth(self, measured: Iterable[str]) -> list[str]:
        """The metrics whose growth is tracked: those of health, and those that a condition needs."""
        grown = [
            c.metric for c in self.stop_and_warn_conditions if c.metric.endswith((GROWTH, LEFT))
        ]
        base_metrics = {name.removesuffix(GROWTH).removesuffix(LEFT) for name in grown}
        return [name for name in measured if name in HEALTH or name in base_metrics]

    def find_metric_limits(self) -> dict[str, float]:
        """The limit of each metric: the one that stops the training, or the published one."""
        limits = {c.metric: c.number for c in (*self.warn, *self.stop) if c.op in (">", ">=")}
        return {**LIMITS, **limits}

    def evaluate_stop_and_warn_conditions(self, report: Report) -> StopDecisions:
        """Decide the conditions; those on growth wait for a slope, and warnings are no verdicts."""
        stop, stops = evaluate_stop_conditions(report, self.stop)
        _, warns = evaluate_stop_conditions(report, self.warn)
        return StopDecisions(stop, "; ".join(stops.values()), warns)


def evaluate_stop_conditions(
    report: Report, rules: Iterable[Condition]
) -> tuple[tuple[Verdict, ...], dict[str, str]]:
    """The verdicts, and messages of those that failed, by condition."""
    ready = [condition for condition in rules if has_report_slopes_for_condition(report, condition)]
    verdicts = tuple(gates.decide_report_gates(report, ready))
    failed = {
        condition.text: f"{condition.text}: {verdict.text}{describe_location_of_extreme_value(report, condition)}"
        for condition, verdict in zip(ready, verdicts, strict=True)
        if verdict.failed
    }
    return verdicts, failed


def has_report_slopes_for_condition(report: Report, condition: Condition) -> bool:
    """Whether the slopes exist that the condition needs; they need a few observations."""
    if not condition.metric.endswith((GROWTH, LEFT)):
        return True
    return any(row.metric == condition.metric and row.value is not None for row in report.rows)


def describe_location_of_extreme_value(report: Report, condition: Condition) -> str:
    """The location of the number behind an aggregate, which its verdict does not name."""
    if condition.aggregate not in ("min", "max"):
        return ""
    known = [row for row in gates.select_gated_rows(report, condition) if row.value is not None]
    if not known:
        return ""
    pick = max if condition.aggregate == "max" else min
    return f", {pick(known, key=lambda row: row.value or 0.0).place}"
