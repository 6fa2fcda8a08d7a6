"""The question of `attn sweep`: how a number moves over many models."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

from attncli import gates
from attncli.analysis.run_fingerprint import WRITTEN, Options
from attncli.commands.utilities.sweep.options import DEFAULT_FOLDER, EngineOptions, ItemOptions
from attncli.commands.utilities.sweep.report import SweepItem, SweepMetric, build_sweep_report
from attncli.commands.utilities.sweep.resumable_runs import (
    FinishedItem,
    SweepPlan,
    run_swept_models,
)
from attncli.commands.utilities.sweep.swept_models import (
    ENDING,
    list_report_files,
    list_swept_models,
    parse_training_steps,
    read_report_if_complete,
)
from attncli.declare.command_table import MODEL_COMMANDS, import_command_function
from attncli.declare.option_declarations import (
    OptionValues,
    list_option_flags,
    list_parameters_of_flattened_groups,
    list_parameters_of_option_group,
)
from attncli.declare.option_value_conversion import (
    convert_to_option_value,
    declare_python_only_keyword,
    map_alternative_keyword_names,
    split_type_and_declarations,
)
from attncli.distributed_ranks import read_launch_environment
from attncli.errors import InputError, UsageError, add_article, require_known_names
from attncli.gates import Condition
from attncli.io.atomic_files import create_folder_if_missing
from attncli.io.remote_files import is_remote_url, open_file_system
from attncli.options.run_and_output import OutputOptions
from attncli.processes.engines import Engine, open_engine
from attncli.progress import Progress
from attncli.python.build_python_signatures import OF_PYTHON, SOURCE
from attncli.python.keyword_help import add_keyword_help
from attncli.python.public_functions import (
    NO_CONFIGURATION,
    format_python_call,
    open_progress_display,
)
from attncli.python.report_answer import Answer, report_to_answer
from attncli.records import Report
from attncli.reports.json_report_reading import read_report
from attncli.reports.provenance import add_provenance

Names = str | PathLike[str] | Iterable[str | PathLike[str]]
NOT_THERE = "there is no report of it"


class SweepResult(NamedTuple):
    """The table, and the exit codes of the items that failed."""

    report: Report
    codes: list[int]


def sweep(
    command: str | Callable[..., Any] | None = None,
    model: Names | None = (),
    *,
    glob: Names | None = (),
    revisions: str | None = None,
    models_file: str | PathLike[str] | None = None,
    into: str | PathLike[str] | None = DEFAULT_FOLDER,
    show: str | None = None,
    collect: str | PathLike[str] | None = None,
    engine: str | None = None,
    engine_options: Names | Mapping[str, object] | None = (),
    evict: bool | None = False,
    progress: bool | Progress | None = None,
    **options: Any,
) -> Answer:
    """How does a number change over many models, such as the checkpoints of a training run?

    `attn.sweep("rank-collapse", ["./a", "./b"], engine="local:2", variants="SAN")`: the command or its function, the
    models, and the command's own options as keywords. Keywords alone count: no configuration file, no environment.
    """
    refuse_in_memory_modules(model)
    if isinstance(engine_options, Mapping):
        engine_options = [f"{name}={value}" for name, value in engine_options.items()]
    settings = {
        "command": resolve_command_name(command),
        "model": model,
        "glob": glob,
        "revisions": revisions,
        "models_file": models_file,
        "into": into,
        "show": show,
        "collect": collect,
        "engine": engine,
        "engine_options": engine_options,
        "evict": evict,
        "progress": progress,
    }
    taken = {
        name: convert_to_option_value(KEYWORDS[name], value) for name, value in settings.items()
    }
    named, watcher = taken.pop("command"), taken.pop("progress")
    run = EngineOptions(*(taken.pop(name) for name in ("engine", "engine_options", "evict")))
    items = ItemOptions(**taken)
    words, values = convert_keywords_to_options(named, options) if named is not None else ((), {})
    question = SweepRequest(named, words, lambda name: values, items, run, NO_CONFIGURATION)
    with open_progress_display(watcher) as watch:
        found = run_sweep(question, (), watch)
    command_line = format_python_call("sweep", {"model": items.model, **options}, (named,))
    return report_to_answer(add_provenance(found.report, command_line))


KEYWORDS = {
    each.name: each
    for each in (
        declare_python_only_keyword(
            "command", str | None, None, "What is run on each model, such as rank-collapse."
        ),
        *list_parameters_of_option_group(ItemOptions),
        *list_parameters_of_option_group(EngineOptions),
        OF_PYTHON["progress"],
    )
}
sweep.__doc__ = add_keyword_help(sweep.__doc__, KEYWORDS.values())


class SweepRequest(NamedTuple):
    """A requested sweep, from Python or from the command line."""

    command: str | None
    words: Sequence[str]
    values: Callable[[str], Options]
    """Returns every option of the command with its value, for a model."""
    items: ItemOptions
    run: EngineOptions
    settings: Mapping[str, str]


def refuse_in_memory_modules(model: Any) -> None:
    """Refuse in-memory modules: the runs are other processes and cannot receive them."""
    every = model if isinstance(model, list | tuple) else [model]
    for each in every:
        if hasattr(each, "state_dict"):
            raise UsageError(
                f"a sweep runs in processes of their own and takes names, not {add_article(type(each).__name__)}: save a model in "
                "a folder and name that, or ask about it by the question's own function."
            )


def resolve_command_name(command: Any) -> Any:
    """Find the command by its name, by its function's name, or by the function itself."""
    name = getattr(command, "__name__", command) if callable(command) else command
    dashed = name.replace("_", "-") if isinstance(name, str) else name
    return dashed if dashed in MODEL_COMMANDS else name


def convert_keywords_to_options(
    command: str, keywords: OptionValues
) -> tuple[tuple[str, ...], dict[str, Any]]:
    """The command's options as words for those who run it, and all of their values."""
    require_sweepable_command(command)
    function = import_command_function(command)
    known = {
        each.name: each
        for each in list_parameters_of_flattened_groups(function)
        if each.name != SOURCE
    }
    usual = map_alternative_keyword_names(known)
    keywords = {usual.get(name, name): value for name, value in keywords.items()}
    require_known_names(f"keyword of {command}", keywords, known)
    own = {name: convert_to_option_value(known[name], value) for name, value in keywords.items()}
    words = [
        word
        for name, value in own.items()
        for word in format_command_line_option(known[name], value)
    ]
    rest = {
        each.name: each.default
        for each in (*known.values(), *list_parameters_of_option_group(OutputOptions))
    }
    return tuple(words), {**rest, **own}


def format_command_line_option(parameter: Any, value: object) -> list[str]:
    """An option as the command line spells it."""
    kind, (option, *_) = split_type_and_declarations(parameter)
    names = list_option_flags(option, parameter.name, kind)[0].split("/")
    if isinstance(value, bool):
        return [names[0]] if value else names[1:2]
    if value is None:
        return []
    return [f"{names[0]}={each}" for each in (value if isinstance(value, list) else [value])]


def require_sweepable_command(command: str) -> None:
    """Refuse what is no question about a model; an option in its place is one that `sweep` does not have."""
    if command.startswith("-"):
        option = command.partition("=")[0]
        raise UsageError(f"no such option: {option}; options of the swept command follow its name.")
    require_known_names("command to sweep", [command], MODEL_COMMANDS)


def plan_sweep(question: SweepRequest) -> SweepPlan:
    """Plan the runs, after all checks that are possible before the first one."""
    if question.command is None:
        raise UsageError(
            f"there is no COMMAND to run on the models: it is one of {', '.join(MODEL_COMMANDS)}."
        )
    require_sweepable_command(question.command)
    items = question.items
    names = list_swept_models(items.model, items.glob, items.revisions, items.models_file)
    options = question.values(names[0])
    for name in WRITTEN:
        if options.get(name) is not None:
            raise UsageError(
                f"`{name}={str(options[name])!r}` would be written by every item: leave it out."
            )
    words, into = tuple(question.words), items.collect or items.into
    return SweepPlan(
        question.command, words, options, names, into, question.settings, question.run.evict
    )


def run_sweep(
    question: SweepRequest, conditions: Sequence[Condition], progress: Progress
) -> SweepResult:
    """Run what is missing and combine the reports."""
    shown = None if question.items.show is None else parse_sweep_metric(question.items.show)
    if shown is not None:
        gates.refuse_gates_on_unmeasured_metrics(conditions, [shown.metric])
    if question.items.collect is not None:
        found = collect_finished_reports(question, question.items.collect)
    elif question.command is None:
        found = read_named_reports(question.items, conditions, shown)
    else:
        plan = plan_sweep(question)
        gates.refuse_gates_that_match_no_row(
            conditions, {"item": plan.names, "step": plan.training_steps}
        )
        found = run_swept_models(
            plan,
            prepare_engine_and_report_folder(question.run, plan.into),
            progress,
            partial(refuse_gates_without_report_rows, conditions, shown),
        )
    items = [item for item, _ in found]
    report = build_sweep_report(items, shown or default_sweep_metric(items))
    return SweepResult(report, [code for _, code in found if code])


def prepare_engine_and_report_folder(run: EngineOptions, into: str) -> Engine:
    """Create the engine and the report folder; both are validated before any run."""
    default = "torchrun" if read_launch_environment().is_distributed else "local"
    engine = open_engine(run.engine or default, run.engine_options)
    if read_launch_environment().is_distributed and run.engine not in (None, "torchrun"):
        raise UsageError(
            f"`engine={run.engine!r}` has processes of its own: start it without torchrun."
        )
    if is_remote_url(into):
        open_file_system(into)
    else:
        create_folder_if_missing(Path(into))
    return engine


def refuse_gates_without_report_rows(
    conditions: Sequence[Condition], shown: SweepMetric | None, item: SweepItem
) -> None:
    """Report gates that the first report cannot answer before the second run starts."""
    if item.report is not None:
        alone = build_sweep_report([item], shown or default_sweep_metric([item]))
        gates.refuse_gates_on_unmeasured_metrics(conditions, {row.metric for row in alone.rows})
        series = [row.variant for row in alone.rows if row.variant is not None]
        gates.refuse_gates_that_match_no_row(conditions, {"variant": series} if series else {})


def collect_finished_reports(question: SweepRequest, folder: str) -> list[FinishedItem]:
    """Collect finished reports from a folder, without running anything; if models are named, theirs
    only."""
    if question.command is not None:
        plan = plan_sweep(question)
        names, reports = (
            list(plan.names),
            [read_report_if_complete(plan.report_path_of_model(name)) for name in plan.names],
        )
        return pair_reports_with_exit_codes(names, plan.training_steps, reports)
    found = [(place, read_report_if_complete(place)) for place in list_report_files(folder)]
    whole = [(place, report) for place, report in found if report and report.study != "sweep"]
    if not whole:
        raise InputError(f"there is no report in {folder}: give the folder that `into` names.")
    names = [model_name_of_report(report, place) for place, report in whole]
    files = [Path(place).name for place, _ in whole]
    return pair_reports_with_exit_codes(
        make_model_names_unique(names, files),
        parse_training_steps(names),
        [report for _, report in whole],
    )


def pair_reports_with_exit_codes(
    names: Sequence[str], numbers: Sequence[int], reports: Sequence[Report | None]
) -> list[FinishedItem]:
    items = (
        SweepItem(name, step, report, "" if report else NOT_THERE)
        for name, step, report in zip(names, numbers, reports, strict=True)
    )
    return [(item, 0 if item.report else InputError.exit_code) for item in items]


def make_model_names_unique(names: Sequence[str], files: Sequence[str]) -> list[str]:
    """Several reports of one model are named by their files too."""
    count = Counter(names)
    return [
        name if count[name] == 1 else f"{name} ({file})"
        for name, file in zip(names, files, strict=True)
    ]


def read_named_reports(
    items: ItemOptions, conditions: Sequence[Condition], shown: SweepMetric | None
) -> list[FinishedItem]:
    """Read finished reports by name, such as those of a training history; an unreadable one becomes
    a failed item."""
    names = list_swept_models(items.model, items.glob, items.revisions, items.models_file)
    unfinished = [name for name in names if not name.endswith(ENDING)]
    if unfinished:
        raise UsageError(
            f"{unfinished[0]} is no finished report: say what is run on it, as in `sweep('inspect-model', model={unfinished[0]!r})`."
        )
    gates.refuse_gates_that_match_no_row(
        conditions, {"item": names, "step": parse_training_steps(names)}
    )
    found = []
    for name, step in zip(names, parse_training_steps(names), strict=True):
        try:
            item, code = SweepItem(name, step, read_report(name)), 0
        except InputError as error:
            item, code = SweepItem(name, step, None, str(error)), error.exit_code
        refuse_gates_without_report_rows(conditions, shown, item)
        found.append((item, code))
    return found


def model_name_of_report(report: Report, place: str) -> str:
    """The item as its command named it, else its file."""
    words = report.command[2:3]
    return words[0] if words and not words[0].startswith("-") else place


def parse_sweep_metric(text: str) -> SweepMetric:
    selection, aggregate = gates.parse_selection_and_aggregate(text)
    if aggregate not in gates.AGGREGATES:
        raise UsageError(f"`show={text!r}`: a table needs one number: min(), max() or mean().")
    choose = partial(gates.select_gated_rows, selection=selection)
    combine = gates.AGGREGATES[aggregate]
    return SweepMetric(selection.text, selection.metric, choose, aggregate, combine)


def default_sweep_metric(items: Sequence[SweepItem]) -> SweepMetric:
    """The first state metric of the first report, after the last layer; without one, its first
    metric."""
    report: Report | None = next((item.report for item in items if item.report), None)
    if report is None or not report.rows:
        return parse_sweep_metric("value")
    numbers = [row for row in report.rows if row.value is not None] or list(report.rows)
    states = [row for row in numbers if row.layer is not None and row.head is None]
    return parse_sweep_metric(f"{states[0].metric}[layer=-1]" if states else numbers[0].metric)
