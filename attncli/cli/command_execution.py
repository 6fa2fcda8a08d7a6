"""A question's command: parse → one call → gates → write. Nothing else happens between a terminal and an answer."""

import functools
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from attncli.blas_threads_and_lock import TURNS
from attncli.cli.typer_options import set_function_signature
from attncli.declare.command_table import MODEL_COMMANDS, CommandEntry
from attncli.declare.option_declarations import (
    ANY_MODEL,
    Applies,
    OptionValues,
    Question,
    build_dataclasses_of_option_groups,
    declare_option,
    list_parameters_of_flattened_groups,
    list_parameters_of_option_group,
)
from attncli.distributed_ranks import is_first_rank, is_started_by_attn, read_launch_environment
from attncli.errors import FAILED_GATE, UsageError
from attncli.io.atomic_files import is_device_or_pipe
from attncli.io.standard_streams import print_to_stderr as print_line
from attncli.io.tensor_file_extensions import TENSORS
from attncli.options.run_and_output import OutputOptions
from attncli.processes.resume_cache import PARTS
from attncli.progress import Say, ignore_message, make_status_callback, progress_bar
from attncli.python.build_python_signatures import OF_PYTHON, SOURCE
from attncli.python.questions import RunContext

FINISHED = (0, FAILED_GATE)
"""Exit codes of runs that have left their report."""

Run = Callable[[Question, OptionValues, Any], int]
"""Called with the question, its options, and the output options."""


@dataclass(frozen=True)
class QuietOptions:
    """Options of commands that write a file and no report."""

    quiet: bool = declare_option(
        "--quiet", "-q", default=False, help="Print nothing on stderr but errors.", panel="Output"
    )


@dataclass(frozen=True)
class ProcessOptions(OutputOptions):
    """Options of commands whose work can be distributed."""

    processes: int | None = declare_option(
        metavar="N",
        panel="Output",
        applies=Applies(to=ANY_MODEL, why="{setting} divides the texts of a model: leave it out."),
        help="Divide a model's texts among N processes started here; the report is that of one. [default: 1]",
    )


def make_command_function(question: Callable[..., Any], entry: CommandEntry) -> Callable[..., int]:
    """The function that typer calls: the question's options and those of its kind of answer."""
    group: type[Any] = OutputOptions
    run: Run = run_command_and_write_report
    if question.__annotations__["return"] is Path:
        group, run = QuietOptions, run_command_that_writes_its_own_file
    elif entry.runs_models and entry.reads_texts:
        group, run = ProcessOptions, run_in_several_processes
    own = list(list_parameters_of_flattened_groups(question))
    shared = list(list_parameters_of_option_group(group))

    @functools.wraps(question)
    def run_command(**values: Any) -> int:
        output = group(**{each.name: values.pop(each.name) for each in shared})
        PARTS.folder = None
        if getattr(output, "local_report_path", None) is not None:
            cache_text_results_for_resuming(question, values, output)
        code = run(question, build_dataclasses_of_option_groups(question, values), output)
        if (
            PARTS.folder is not None
            and code in FINISHED
            and not read_launch_environment().is_distributed
        ):
            PARTS.delete_saved_results()  # of several processes the last one out puts them away
        return code

    python_only = [OF_PYTHON[name] for name in vars(question)["own"]]
    return set_function_signature(run_command, (*own, *shared), python_only)


def run_command_and_write_report(
    function: Question, options: OptionValues, output: OutputOptions
) -> int:
    """Validate, run the question, decide the gates, write."""
    from attncli.cli.report_writer import (
        resolve_report_format,
        validate_output_options,
        write_report,
    )
    from attncli.gates import decide_report_gates
    from attncli.render import FORMATS
    from attncli.reports.provenance import add_provenance

    module, file = None, output.local_report_path
    if "save_module" in vars(function)["own"] and file is not None and file.suffix == TENSORS:
        module, output = file, replace(output, output=None)  # and the report goes to stdout
    conditions = validate_output_options(output, module, options.get("save_maps"))
    with progress_bar(output.shows_progress) as progress:
        doing = make_status_callback(progress)
        doing(f"loading {options[SOURCE]}" if options.get(SOURCE) else "working")
        say = make_stderr_printer(output.quiet, doing)
        how = RunContext(
            progress,
            doing,
            say,
            tuple(conditions),
            pictures=output.plot is not None,
            maps=FORMATS.declaration_of_entry(resolve_report_format(output)).shows_maps,
            output=output.local_report_path,
            save_module=module,
        )
        with TURNS.open_measurement_scope():  # in which libraries say nothing, as in Python
            report = function(**options, how=how)
    decided = decide_report_gates(report, conditions)
    report = add_provenance(report).with_verdicts([*report.verdicts, *decided])
    return write_report(report, output)


def run_in_several_processes(
    function: Question, options: OptionValues, output: ProcessOptions
) -> int:
    """Start several processes if requested; each of them answers as usual."""
    if output.processes is not None and not is_started_by_attn():
        refuse_useless_process_count(output.processes)
        if output.processes > 1:
            dry_run_command(function, options, output)
            from attncli.processes.rank_process_launch import run_command_in_rank_processes

            return run_command_in_rank_processes(output.processes, sys.argv[1:], PARTS.folder)
    return run_command_and_write_report(function, options, output)


def dry_run_command(function: Question, options: OptionValues, output: OutputOptions) -> None:
    """Do a dry run before any process is started: it refuses whatever can be refused without the
    model."""
    from attncli.declare.dry_run import STAGE, DryRunReached

    STAGE.rehearsing = True
    try:
        run_command_and_write_report(function, options, output)
    except DryRunReached:
        return
    finally:
        STAGE.rehearsing = False


def refuse_useless_process_count(count: int) -> None:
    """Refuse --processes where there is nothing to distribute, or where torchrun has started the
    processes."""
    if count < 1:
        raise UsageError(f"--processes {count}: it must be at least 1.")
    if read_launch_environment().is_distributed:
        raise UsageError(
            f"--processes {count} starts processes, and {read_launch_environment().size} were started already: leave it out."
        )


def cache_text_results_for_resuming(function: Question, values: OptionValues, output: Any) -> None:
    """Save the results of single texts next to the report until it is complete."""
    path, command = output.local_report_path, function.__name__.replace("_", "-")
    if command not in MODEL_COMMANDS or is_device_or_pipe(path):
        return

    def compute_fingerprint() -> str:
        from attncli.analysis.run_fingerprint import WEIGHTS, compute_run_fingerprint

        return compute_run_fingerprint(command, values, but=WEIGHTS)

    found = PARTS.start_saving_results(path, compute_fingerprint, make_stderr_printer(output.quiet))
    if found and is_first_rank() and not is_started_by_attn() and not output.quiet:
        left = "1 result is" if found == 1 else f"{found} results are"
        print_line(
            f"{left} left of a run that did not finish: what belongs to this command is not computed again ({PARTS.folder})"
        )


def run_command_that_writes_its_own_file(
    function: Question, options: OptionValues, output: QuietOptions
) -> int:
    function(**options, how=RunContext(say=make_stderr_printer(output.quiet)))
    return 0


def make_stderr_printer(quiet: bool, doing: Say = ignore_message) -> Say:
    """Return a function that prints sentences on stderr, in place of the progress line; silent with
    --quiet."""

    def print_message_unless_quiet(sentence: str) -> None:
        if not quiet:
            from attncli.cli.parameter_names_as_options import replace_parameters_by_options

            doing("")
            print_line(replace_parameters_by_options(sentence))

    return print_message_unless_quiet
