"""Run a sweep: reuse finished reports, send the rest to an engine, and report failures."""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import cached_property

from attncli.analysis.run_fingerprint import Options
from attncli.commands.utilities.sweep.report import SweepItem
from attncli.commands.utilities.sweep.swept_models import (
    parse_training_steps,
    read_report_if_complete,
    remove_partial_reports,
    remove_report_file,
    report_file_name,
)
from attncli.distributed_ranks import read_launch_environment
from attncli.errors import InputError
from attncli.io.remote_files import join_path_or_url
from attncli.processes.command_in_subprocess import ProcessRun
from attncli.processes.divide_work_over_ranks import (
    divide_work_between_ranks,
    list_item_indices_of_rank,
)
from attncli.processes.engines import Engine
from attncli.processes.job_sent_to_worker import Job
from attncli.progress import Progress, ignore_progress

CHANGED = "its files changed while it was measured: run the same command again"

FinishedItem = tuple[SweepItem, int]
"""An item and its exit code, 0 where its report is there."""


@dataclass(frozen=True)
class SweepPlan:
    """The runs of a sweep: command, items, folder of reports."""

    command: str
    words: tuple[str, ...]
    """Options of the command, as they are typed."""
    options: Options
    """Every option of the command with its value."""
    names: Sequence[str]
    into: str
    settings: Mapping[str, str] = field(default_factory=dict)
    """Environment variables that set options."""
    evict: bool = False

    def report_path_of_model(self, name: str) -> str:
        return join_path_or_url(self.into, report_file_name(self.command, self.options, name))

    def command_line_of_model(self, name: str) -> tuple[str, ...]:
        return (self.command, name, *self.words)

    @cached_property
    def training_steps(self) -> list[int]:
        return parse_training_steps(self.names)


def run_swept_models(
    plan: SweepPlan, engine: Engine, progress: Progress, seen: Callable[[SweepItem], None]
) -> list[FinishedItem]:
    """Run every item in order; `seen` is called with each finished item and may raise to stop."""
    runs = SweepRuns(plan, engine, seen)
    if not read_launch_environment().is_distributed:
        return runs.run_models_on_engine(range(len(plan.names)), progress)
    share = list_item_indices_of_rank(plan.names)

    def run_model_on_this_rank(place: int) -> FinishedItem:
        progress(share.index(place), len(share), "models")
        return runs.run_models_on_engine([place], ignore_progress)[0]

    names = [plan.report_path_of_model(name) for name in plan.names]
    return divide_work_between_ranks(
        range(len(plan.names)), run_model_on_this_rank, names.__getitem__
    )


class SweepRuns:
    """The items of a plan on an engine."""

    def __init__(self, plan: SweepPlan, engine: Engine, seen: Callable[[SweepItem], None]) -> None:
        self.plan = plan
        self.engine = engine
        self.seen = seen
        self.finished: dict[int, FinishedItem] = {}
        self.reports: dict[int, str] = {}
        """Where those in hand are written."""
        self.fetched: set[str] = set()
        """Models that were in the cache before."""

    def run_models_on_engine(self, places: Sequence[int], progress: Progress) -> list[FinishedItem]:
        """Run these items, the finished ones first because they cost nothing."""
        missing = [place for place in places if not self.find_finished_report(place)]
        progress(len(places) - len(missing), len(places), "models")
        if missing:
            try:
                with closing(
                    self.engine(self.iterate_jobs_without_report(missing), len(missing))
                ) as outcomes:
                    for place, run in outcomes:
                        self.read_report_or_failure_of_run(place, run)
                        progress(sum(p in self.finished for p in places), len(places), "models")
            finally:
                self.remove_partial_files(missing)
        return [self.finished[place] for place in places]

    def remove_partial_files(self, places: Sequence[int]) -> None:
        """Remove the partial files of workers that were stopped during an item."""
        for place in places:
            if place not in self.finished:
                remove_partial_reports(self.reports[place])

    def find_finished_report(self, place: int) -> bool:
        """Whether an earlier run has left its report."""
        name = self.plan.names[place]
        self.reports[place] = self.plan.report_path_of_model(name)
        report = read_report_if_complete(self.reports[place])
        if report is None:
            return False
        self.record_finished_model(
            place, SweepItem(name, self.plan.training_steps[place], report), 0
        )
        return True

    def iterate_jobs_without_report(self, places: Sequence[int]) -> Iterator[Job]:
        """Yield the jobs; the cache is checked again for each, since another driver may have
        finished it meanwhile."""
        for place in places:
            if self.find_finished_report(place):
                continue
            name = self.plan.names[place]
            if self.plan.evict:
                remember_models_already_cached(name, self.fetched)
            yield Job(
                place,
                self.plan.command_line_of_model(name),
                self.reports[place],
                os.getcwd(),
                self.plan.settings,
            )

    def read_report_or_failure_of_run(self, place: int, run: ProcessRun) -> None:
        """Read the report that the run has written, or describe its failure."""
        name, where = self.plan.names[place], self.reports[place]
        step = self.plan.training_steps[place]
        report = read_report_if_complete(where) if run.has_report else None
        remove_partial_reports(where)
        if self.plan.evict:
            evict_cached_model(name, self.fetched)
        if report is None:
            failed = SweepItem(name, step, None, f"exit {run.code}: {run.sentence}")
            self.record_finished_model(place, failed, run.code or InputError.exit_code)
        elif (
            self.plan.report_path_of_model(name) != where
        ):  # its name speaks of files that are no more
            remove_report_file(where)
            self.record_finished_model(
                place, SweepItem(name, step, None, CHANGED), InputError.exit_code
            )
        else:
            self.record_finished_model(place, SweepItem(name, step, report), 0)

    def record_finished_model(self, place: int, item: SweepItem, code: int) -> None:
        self.finished[place] = (item, code)
        self.seen(item)


def remember_models_already_cached(name: str, cached: set[str]) -> None:
    """Remember which models were in the cache already, so that they are not evicted."""
    from attncli.model_and_file_sources import parse_source
    from attncli.models.files.hub_cache import is_model_in_hub_cache

    source = parse_source(name)
    if source.kind == "hub" and is_model_in_hub_cache(source.name):
        cached.add(source.name)


def evict_cached_model(name: str, cached: set[str]) -> None:
    """Remove from the cache what this item has downloaded."""
    from attncli.model_and_file_sources import parse_source
    from attncli.models.files.hub_cache import remove_model_from_hub_cache

    source = parse_source(name)
    if source.kind == "hub" and source.name not in cached:
        remove_model_from_hub_cache(source.name)
