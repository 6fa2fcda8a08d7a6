"""The numbers of one step of a training as a report, like that of any other model."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from attncli.analysis.heads.classification.head_roles import build_role_rows, classify_heads
from attncli.analysis.heads.forward_passes.head_observer import PassResult
from attncli.analysis.heads.metric_selection import MetricSelection
from attncli.analysis.heads.model_inspection import describe_attention_layers, select_every_head
from attncli.analysis.heads.report_rows.head_rows import (
    HeadObservations,
    build_head_rows,
    build_state_rows,
    row_keys_of_attention_sites,
)
from attncli.analysis.heads.report_tables import build_inspection_views
from attncli.analysis.load_and_verify_model import PreparedModel
from attncli.errors import AttnError
from attncli.maths.number_format import format_short_number
from attncli.records import Facts, Finding, Report, Row, Scalar, View
from attncli.training.metric_growth import HeadMetricHistory

STUDY = "training"

WORST: Mapping[str, str] = {
    "max_logit": "max",
    "qk_clip": "min",
    "min_entropy": "min",
    "entropy_collapse": "max",
    "entropy": "min",
    "entropy_normalised": "min",
    "effective_support": "min",
    "sink": "max",
    "sink_max": "max",
    "attention_stable_rank": "min",
    "stable_rank": "min",
    "effective_rank": "min",
    "participation_ratio": "min",
    "log10_residual": "min",
    "token_cosine_gap": "min",
    "max_activation": "max",
}
"""Which extreme of a metric indicates a failing training; other metrics have none."""


@dataclass
class StepReports:
    """Common settings of all reports of a training, and the growth of its numbers."""

    subject: PreparedModel
    metrics: MetricSelection
    identity: Facts
    read: Facts
    """Description of the input."""
    growth: HeadMetricHistory
    latest: Sequence[Row] = field(default_factory=tuple)
    """Rows of the last successful observation: a failed one has rows at the same coordinates."""

    def build_step_report(self, step: int, seen: Sequence[PassResult]) -> Report:
        """The report of one observation."""
        own = HeadObservations(texts=list(seen))
        rows = self.build_head_metric_rows(own)
        self.latest = rows
        self.growth.record_observation(step, rows)
        grown = list(self.growth.build_metric_growth_rows(rows))
        return replace(
            self.build_empty_step_report(step),
            headline=format_step_headline(step, self.identity, rows),
            rows=(*rows, *grown),
            source={**self.identity, "step": step, "attention": describe_attention_layers(own)},
            input={**self.read, "read": len(own.texts)},
            views=(
                *build_inspection_views(rows, self.metrics, None, len(own.texts)),
                *build_metric_growth_tables(grown),
            ),
        )

    def build_head_metric_rows(self, own: HeadObservations) -> list[Row]:
        metrics = self.metrics
        keys = row_keys_of_attention_sites(own.attention_sites, self.subject.stacks)
        rows = list(build_head_rows(metrics.heads, own, {}, keys, select_every_head))
        units = {name: metrics.metric_definitions()[name].unit for name in metrics.states}
        roles = build_role_rows(classify_heads(rows)) if metrics.roles else []
        return [*roles, *rows, *build_state_rows(units, own, {})]

    def build_failed_step_report(self, step: int, error: AttnError, where: str) -> Report:
        """The report of a failed observation: every row is null, with the reason."""
        message = f"{error}" + (f" ({where})" if where else "")
        places = self.latest or [Row(name, None, "1") for name in self.metrics.metric_definitions()]
        rows = tuple(
            replace(
                row,
                value=None,
                spread=None,
                n=1,
                note=message,
                keys=read_location_of_report_row(row),
                each=(),
            )
            for row in places
        )
        return replace(
            self.build_empty_step_report(step),
            headline=f"step {step}: {message}",
            rows=rows,
            findings=(Finding("not finite", message),),
            warnings=(f"step {step}: {message}",),
        )

    def build_empty_step_report(self, step: int) -> Report:
        definitions = self.metrics.metric_definitions()
        return Report(
            study=STUDY,
            headline=f"step {step}",
            rows=(),
            metrics={**definitions, **self.growth.define_growth_metrics(definitions)},
            source={**self.identity, "step": step},
            input=self.read,
        )


def build_metric_growth_tables(rows: Sequence[Row]) -> Iterator[View]:
    """A table of growth, once there are slopes."""
    known = dict.fromkeys(row.metric for row in rows if row.value is not None)
    if known:
        yield View("growth over the last looks", "layer.head", tuple(known))


def read_location_of_report_row(row: Row) -> dict[str, Scalar]:
    """The keys that locate a number."""
    return {name: row.keys[name] for name in row.coordinates if name in row.keys}


def format_step_headline(step: int, identity: Facts, rows: Sequence[Row]) -> str:
    """The worst head of every metric, with its location."""
    parts = [
        f"{metric} {format_short_number(row.value or 0.0, 4)}{format_standard_deviation(row)} ({row.place})"
        for metric in dict.fromkeys(row.metric for row in rows)
        if (row := find_worst_row_of_metric(metric, rows)) is not None
    ]
    return f"step {step} of {identity['name']}: {', '.join(parts) or 'no numbers'}."


def format_standard_deviation(row: Row) -> str:
    """Standard deviation over the texts of one observation, if there are several."""
    return "" if row.spread is None else f" ± {format_short_number(row.spread, 1)}"


def find_worst_row_of_metric(metric: str, rows: Sequence[Row]) -> Row | None:
    """The row with the worst value; None where no extreme is worse, or there is no number."""
    side = WORST.get(metric)
    if side is None:
        return None
    known = [row for row in rows if row.metric == metric and row.value is not None]
    if not known:
        return None
    return (max if side == "max" else min)(known, key=lambda row: row.value or 0.0)
