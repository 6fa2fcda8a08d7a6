"""`attn sweep`"""

import json
import os
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from attncli.cli.typer_options import flatten_option_groups
from attncli.commands.utilities.sweep.options import EngineOptions, ItemOptions
from attncli.declare.command_table import MODEL_COMMANDS
from attncli.declare.option_declarations import Applies, declare_argument, declare_option
from attncli.errors import UsageError
from attncli.io.remote_files import is_remote_url
from attncli.options.run_and_output import OutputOptions
from attncli.options.value_completion import make_name_completer
from attncli.registry import list_entry_names

if TYPE_CHECKING:
    from attncli.commands.utilities.sweep.resumable_runs import SweepPlan

EXAMPLES = """
attn sweep rank-collapse --glob 'runs/*/checkpoint-*' --variants SAN,transformer --plot
attn sweep inspect-model --model ./a --model org/name@step1000 --show 'max(sink)'
attn sweep rank-collapse --model EleutherAI/pythia-14m --revisions 'step*000'
attn sweep --glob 'run/attn/step-*.json' --show 'max(max_logit)' --plot
attn sweep rank-collapse --glob 'runs/checkpoint-*' --into sweep/ -o sweep.json --fail-if 'log10_residual < -3'
attn sweep inspect-model --glob 'runs/*' --engine local:4             # four warm workers
attn sweep inspect-model --glob 'runs/*' --engine submitit --engine-options partition=gpu,timeout_min=60
attn sweep inspect-model --glob 'runs/*' --list-items                 # command lines for another tool to run …
attn sweep --collect attn-sweep                                       # … and the table of what it has made
"""

OTHER_FORMATS = [name for name in list_entry_names("attncli.render") if name != "jsonl"]
PASSES_OPTIONS_ON = True
"""Options that `sweep` does not have belong to the command that it runs."""


@flatten_option_groups
def sweep(
    *,
    words: list[str] | None = declare_argument(
        default=None,
        metavar="[COMMAND [OPTION]…]",
        help=(
            "Command to run on every model, with its own options (those not listed here are passed on to it). "
            "Without a command the items are finished reports."
        ),
        complete=make_name_completer(lambda: MODEL_COMMANDS),
    ),
    list_items: bool = declare_option(
        default=False,
        panel="Models",
        applies=Applies(
            excludes=tuple(f"format:{name}" for name in OTHER_FORMATS),
            why="{name} prints command lines, or jsonl: not {other_setting}.",
        ),
        help=(
            "Run nothing: print each item's command line, or with --format jsonl the data that another scheduler "
            "needs."
        ),
    ),
    items: ItemOptions,
    run: EngineOptions,
    output: OutputOptions,
) -> int:
    """How does a number change over many models, such as the checkpoints of a training run?

    Without a COMMAND it reads finished reports, such as those of a watched training. What is finished is never run
    again, so the same command resumes after an interruption; an item that fails is reported, and the others continue.
    The table does not depend on the engine.
    """
    from attncli import gates
    from attncli.cli.config.settings import resolve_all_option_values
    from attncli.cli.report_writer import validate_output_options, write_report
    from attncli.commands.utilities.sweep.command import SweepRequest, plan_sweep, run_sweep
    from attncli.io.atomic_files import create_folder_if_missing
    from attncli.io.standard_streams import write_stdout
    from attncli.processes.job_sent_to_worker import select_option_environment_variables
    from attncli.progress import progress_bar
    from attncli.reports.provenance import add_provenance

    command, rest = (words[0], tuple(words[1:])) if words else (None, ())
    question = SweepRequest(
        command,
        rest,
        lambda name: resolve_all_option_values([command or "", name, *rest]),
        items,
        run,
        select_option_environment_variables(os.environ),
    )
    if list_items:
        plan = plan_sweep(question)
        printed = list(format_command_lines(plan, output))
        create_folder_if_missing(Path(plan.into))
        write_stdout("".join(f"{line}\n" for line in printed))
        return 0
    conditions = validate_output_options(output)
    with progress_bar(output.shows_progress) as progress:
        found = run_sweep(question, conditions, progress)
    report = add_provenance(found.report)
    report = report.with_verdicts(
        [*report.verdicts, *gates.decide_report_gates(report, conditions)]
    )
    return gates.worst_exit_code([write_report(report, output), *found.codes])


def format_command_lines(plan: "SweepPlan", output: OutputOptions) -> Iterator[str]:
    """One ready command line per item, for a shell or as JSON."""
    from attncli.commands.utilities.sweep.swept_models import read_report_if_complete

    if is_remote_url(plan.into):
        raise UsageError(
            f"--list-items writes reports with -o, which takes files: give a folder instead of --into {plan.into}."
        )
    for name, step in zip(plan.names, plan.training_steps, strict=True):
        report = plan.report_path_of_model(name)
        words = ["attn", *plan.command_line_of_model(name), "--format", "json", "-o", report]
        facts = {
            "item": name,
            "step": step,
            "report": report,
            "done": read_report_if_complete(report) is not None,
        }
        line = " ".join(map(quote_shell_word, words))
        yield json.dumps({**facts, "command": words, "line": line}) if output.format else line


def quote_shell_word(word: str) -> str:
    """Quote a word for the shell, on one line even if it contains line breaks.

    bash, zsh and ksh take bytes in $'…'; a shell that does not know it reads another name there, but no end of the quote.
    """
    if word.isprintable():
        return shlex.quote(word)
    plain = set(range(32, 127)) - set(b"'\\")
    quoted = (chr(byte) if byte in plain else f"\\{byte:03o}" for byte in os.fsencode(word))
    return f"$'{''.join(quoted)}'"
