"""Monitor a training loop of one's own: call `monitor.step()` after every step of the optimiser."""

import logging
from collections.abc import Iterable, Mapping
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Any

from torch import nn
from transformers import PreTrainedTokenizerBase

import attncli
from attncli.analysis.heads.metric_selection import (
    MetricSelection,
    choose_metrics,
    list_metrics_by_group,
)
from attncli.declare.option_value_conversion import (
    convert_to_option_value,
    declare_python_only_keyword,
    suggest_unknown_keywords,
)
from attncli.errors import AttnError, InputError, NonFiniteNumbers, UsageError, shorten_error_text
from attncli.models.loading.in_memory.unwrap_models import unwrap_model
from attncli.options.run_and_output import split_comma_separated_names
from attncli.records import JsonObject, Report
from attncli.reports.provenance import describe_environment
from attncli.training.batch_capture import (
    BatchCapture,
    build_batch_capture,
    refuse_metrics_that_need_more_than_maps,
    require_batch_measurement_support,
)
from attncli.training.metric_growth import WINDOW, HeadMetricHistory
from attncli.training.probe_text_runs import (
    Probe,
    ProbeRuns,
    describe_trained_model,
    find_nonfinite_parameter,
    prepare_runs_on_probe_texts,
)
from attncli.training.rank_zero_communication import (
    broadcast_from_rank_zero,
    gather_from_all_ranks,
    is_rank_zero,
)
from attncli.training.scalars_for_loggers import summarize_report_as_scalars
from attncli.training.step_reports import StepReports
from attncli.training.stop_rules import (
    ConditionTexts,
    StopDecisions,
    StopRules,
    parse_stop_conditions,
)
from attncli.training.training_history import TrainingHistory

LOG = logging.getLogger("attncli.training")
"""Logger for warnings; without any configuration Python prints them on stderr."""

ON_PROBE = ("max_logit", "entropy_normalised", "sink", "stable_rank", "log10_residual")
ON_BATCH = ("max_logit", "entropy_normalised", "entropy_collapse", "sink")
PROBE, BATCH = "probe", "batch"

KEYWORDS = {
    each.name: each
    for each in (
        declare_python_only_keyword("every", int, 50, "Steps between two looks."),
        declare_python_only_keyword("metrics", list[str], [], "Names or groups."),
        declare_python_only_keyword("stop_if", list[str], [], "Conditions that end the training."),
        declare_python_only_keyword("warn_if", list[str], [], "Conditions that are only said."),
        declare_python_only_keyword("measure", str, PROBE, "The probe, or the batch of the step."),
        declare_python_only_keyword("folder", Path | None, None, "Where reports are kept."),
        declare_python_only_keyword("step", int, 0, "Steps that were made before."),
        declare_python_only_keyword("tokens", int | None, None, "The longest probe."),
        declare_python_only_keyword("each_layer", bool, False, "A number for every layer, too."),
    )
}
"""Read as the keywords of questions are."""


class Monitor:
    """Observes a model's attention every so many steps, and leaves the training unchanged.

    `every`: steps between two looks. `probe`: what the model is looked at on, between two steps: texts (with
    `tokenizer`), token ids [text, token], or a mapping of the model's own arguments; by default the text that ships
    with attn. `measure="batch"`: the batch of the step instead, as its own forward pass runs. `metrics`: names or
    groups of `attn list attention-metrics` and of states; `metric` means the same. `stop_if`, `warn_if`: conditions as `--fail-if` has them;
    `stopped` then says what to stop for. `folder`: one report for each look is kept there. `step`: how many steps were
    made before, where a training goes on. `tokens`: the longest probe. `each_layer`: a number for every layer, too.
    """

    @suggest_unknown_keywords
    def __init__(
        self,
        model: nn.Module,
        *,
        every: int = 50,
        probe: Probe = None,
        tokenizer: PreTrainedTokenizerBase | None = None,
        metrics: str | Iterable[str] = (),
        metric: str | Iterable[str] = (),
        stop_if: ConditionTexts = (),
        warn_if: ConditionTexts = (),
        measure: str = PROBE,
        folder: str | PathLike[str] | None = None,
        step: int = 0,
        tokens: int | None = None,
        each_layer: bool = False,
    ) -> None:
        # the arguments, as long as nothing else has a name here
        settings = convert_monitor_arguments(locals())
        self.rules, chosen = validate_monitor_arguments(settings)
        self.every: int = settings["every"]
        self.now: int = settings["step"]
        self.each_layer: bool = settings["each_layer"]
        self.stopped = ""
        """Why the training should be stopped; empty while it should not."""
        self.report: attncli.Answer | None = None
        """The latest report."""
        self.logged_texts: set[str] = set()
        self.warned: set[str] = set()
        """Conditions of `warn_if` that held at the latest observation."""
        self.trained = unwrap_model(model)
        if settings["measure"] == BATCH:
            require_batch_measurement_support(self.trained)
        self.runs = prepare_runs_on_probe_texts(
            self.trained,
            probe,
            tokenizer,
            chosen,
            settings["tokens"],
            by_default=not settings["metrics"],
        )
        chosen = self.runs.metrics
        self.batch = None
        if settings["measure"] == BATCH:
            self.batch = build_batch_capture(self.runs, self.is_observation_due)
        self.history = TrainingHistory(settings["folder"])
        self.reports = self.prepare_step_reports(chosen)
        self.first = self.observe_model_now() if self.batch is None and self.now == 0 else {}
        """The numbers before the first step."""

    def prepare_step_reports(self, metrics: MetricSelection) -> StepReports:
        """Prepare the reports, with earlier observations that belong to this training."""
        growth = HeadMetricHistory(
            self.rules.list_metrics_with_growth(metrics.heads), self.rules.find_metric_limits()
        )
        read = describe_training_input(self.runs, self.batch)
        if is_rank_zero():
            self.log_warning_once(self.history.move_later_reports_aside(self.now))
            for step, report in self.history.iter_latest_reports(WINDOW):
                growth.record_observation(step, report.rows)
        return StepReports(
            self.runs.subject, metrics, describe_trained_model(self.trained), read, growth
        )

    def is_observation_due(self) -> bool:
        """Whether the current step will be observed."""
        return (self.now + 1) % self.every == 0

    def step(self) -> dict[str, float]:
        """Call this after each optimiser step: returns the numbers to log, `attn/…`; empty if none
        is due."""
        self.now += 1
        return self.observe_model_now() if self.now % self.every == 0 else {}

    def observe_model_now(self) -> dict[str, float]:
        """Observe the model now."""
        report = self.build_observation_report()
        self.log_warning_once("" if self.batch is None else self.batch.how)
        if report is None:
            return {}
        decisions = self.evaluate_stop_and_warn_conditions(report)
        done = replace(
            report,
            verdicts=decisions.verdicts,
            warnings=(*report.warnings, *decisions.warns.values()),
            command=("attncli.training",),
            environment=describe_environment(),
        )
        self.report = attncli.Answer.of(done)
        self.stopped = broadcast_from_rank_zero(decisions.stops)
        if is_rank_zero():
            self.log_warning_once(self.history.save_step_report(self.now, done))
            self.log_new_warnings(decisions)
            if self.stopped:
                LOG.warning("attn, step %d: stopped by %s", self.now, self.stopped)
        return summarize_report_as_scalars(done, self.each_layer)

    def log_new_warnings(self, decisions: StopDecisions) -> None:
        """Log the warnings that are new since the last observation."""
        for condition, text in decisions.warns.items():
            if condition not in self.warned:
                LOG.warning("attn, step %d: %s", self.now, text)
        self.warned = set(decisions.warns)

    def build_observation_report(self) -> Report | None:
        """The report of an observation; if numbers are not finite, every row says so by name and
        layer."""
        try:
            seen = (
                self.runs.observe_probe_texts()
                if self.batch is None
                else gather_from_all_ranks(self.batch.take_batch_results())
            )
            return self.reports.build_step_report(self.now, seen) if seen else None
        except NonFiniteNumbers as error:
            report = self.reports.build_failed_step_report(
                self.now, error, find_nonfinite_parameter(self.trained.model)
            )
            LOG.warning("attn, %s", report.headline)
            return report
        except AttnError as error:
            failure = error
        except Exception as error:  # whatever goes wrong in looking must not end a training
            failure = InputError(f"{type(error).__name__}: {shorten_error_text(error)}")
            LOG.debug("a look has failed", exc_info=True)
        if self.report is None and self.batch is None:
            raise failure
        self.log_warning_once(f"a look has failed, and the training goes on: {failure}")
        return None

    def evaluate_stop_and_warn_conditions(self, report: Report) -> StopDecisions:
        """Decide the conditions; one on a number that this model lacks is an error at the first
        observation."""
        try:
            return self.rules.evaluate_stop_and_warn_conditions(report)
        except UsageError as error:
            if self.report is None and self.batch is None:
                raise
            self.log_warning_once(f"a condition was not decided: {error}")
            return StopDecisions((), "", {})

    def log_warning_once(self, sentence: str) -> None:
        if sentence and sentence not in self.logged_texts:
            self.logged_texts.add(sentence)
            if is_rank_zero():
                LOG.warning("attn, step %d: %s", self.now, sentence)

    def close(self) -> None:
        """Remove all hooks; nothing else has to be undone."""
        if self.batch is not None:
            self.batch.remove_hooks()

    def __enter__(self) -> "Monitor":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def convert_monitor_arguments(arguments: Mapping[str, Any]) -> JsonObject:
    """Convert keyword arguments of any library; `metric` is an alias of `metrics`."""
    merged = {**arguments, **({"metrics": arguments["metric"]} if arguments["metric"] else {})}
    if arguments["metric"] and arguments["metrics"]:
        raise UsageError("`metric` and `metrics` are the same: leave one out.")
    return {
        name: convert_to_option_value(each, merged[name])
        for name, each in KEYWORDS.items()
        if name in merged
    }


def validate_monitor_arguments(arguments: Mapping[str, Any]) -> tuple[StopRules, MetricSelection]:
    """Validate the arguments before a model is touched."""
    for name, least in (("every", 1), ("tokens", 1), ("step", 0)):
        size = arguments.get(name)
        if size is not None and size < least:
            raise UsageError(f"`{name}` must be at least {least}, not {size}.")
    measure = arguments["measure"]
    if measure not in (PROBE, BATCH):
        raise UsageError(f"`measure` must be '{PROBE}' or '{BATCH}', not {measure!r:.80}.")
    names = split_comma_separated_names(arguments["metrics"])
    chosen = choose_metrics(names or (ON_PROBE if measure == PROBE else ON_BATCH))
    if measure == BATCH:
        refuse_metrics_that_need_more_than_maps(chosen)
    rules = StopRules(
        parse_stop_conditions(arguments["stop_if"]), parse_stop_conditions(arguments["warn_if"])
    )
    others = [name for group in list_metrics_by_group().values() for name in group]
    rules.refuse_unmeasured_conditions(chosen.metric_definitions(), others)
    return rules, chosen


def describe_training_input(runs: ProbeRuns, batch: BatchCapture | None) -> JsonObject:
    """Describe the input, for the report."""
    if batch is not None:
        return {"measure": BATCH}
    return {"measure": PROBE, "texts": [text.describe_model_input() for text in runs.texts]}
