"""`attn sweep`"""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from attncli.cli.typer_options import grouped
from attncli.errors import InputError, UsageError, unknown_name
from attncli.options.completion import completion
from attncli.options.declared import Argument, Option
from attncli.options.shared import OutputOptions
from attncli.processes.runs import OF_MODELS

if TYPE_CHECKING:
    from attncli.cli.config.fingerprint import Options
    from attncli.records import Report
    from attncli.studies.reports.model_sweep import Item, ShownNumber

CHANGED = "its files changed while it was measured: run the same command again"
EXAMPLES = """
attn sweep rank-collapse --glob 'runs/*/checkpoint-*' --variants SAN,transformer --plot
attn sweep inspect-model --model ./a --model org/name@step1000 --show 'max(sink)'
attn sweep rank-collapse --model EleutherAI/pythia-14m --revisions 'step*000'
attn sweep --glob 'run/attn/step-*.json' --show 'max(max_logit)' --plot
attn sweep rank-collapse --glob 'runs/checkpoint-*' --into sweep/ -o sweep.json --fail-if 'log10_residual < -3'
"""


@grouped
def sweep(
    *,
    words: Annotated[
        list[str] | None,
        Argument(
            metavar="[COMMAND [OPTION]…]",
            help="What is run on every model, with its own options: those not listed here go to it. Without it the items "
            "are reports that are finished.",
            complete=completion(lambda: OF_MODELS),
        ),
    ] = None,
    model: Annotated[
        list[str] | None, Option(metavar="MODEL", help="An item, as SOURCE. Repeatable.")
    ] = None,
    pattern: Annotated[
        list[str] | None,
        Option(
            "--glob", metavar="PATTERN", help="Folders or files, such as 'runs/*/checkpoint-*'."
        ),
    ] = None,
    revisions: Annotated[
        str | None,
        Option(metavar="PATTERN", help="Of every --model on the hub, such as 'step*'."),
    ] = None,
    into: Annotated[
        Path,
        Option(metavar="FOLDER", help="One report per item; kept. [default: attn-sweep]"),
    ] = Path("attn-sweep"),
    show: Annotated[
        str | None,
        Option(
            metavar="METRIC",
            help="The table's number, as in 'max(sink[layer=-1])'; a mean if there are several. "
            "[default: the report's first metric, after the last layer]",
        ),
    ] = None,
    output: OutputOptions,
) -> int:
    """How does a number move over many models, such as the checkpoints of a training run?

    Without a COMMAND over reports that are finished, such as those of a watched training. Every item is a process of its own. What is finished is never run again, so the same command goes on where a
    killed one stopped; an item that fails is told, and the rest go on.
    """
    from attncli import gates
    from attncli.api.progress import progress_bar
    from attncli.cli.config.fingerprint import options_of
    from attncli.cli.config.sweep_items import models, steps
    from attncli.cli.writer import prepare, write
    from attncli.reports.provenance import with_provenance
    from attncli.studies.reports.model_sweep import Item, model_sweep
    from attncli.writing.whole_files import require_folder

    conditions = prepare(output)
    if words and words[0] not in OF_MODELS:
        raise unknown_name("command to sweep", words[0], OF_MODELS)
    wanted = chosen(show) if show is not None else None
    names = models(model or [], pattern or [], revisions)
    if not words:
        refuse_unfinished(names)
    options = options_of([words[0], names[0], *words[1:]]) if words else {}
    refuse_one_file_for_all(options)
    if wanted is not None:
        gates.refuse_unmeasured(conditions, [wanted.metric])
    gates.refuse_unmatched(conditions, {"item": names, "step": steps(names)})
    if words:
        require_folder(into)

    def seen(item: Item) -> None:
        """What the first report shows of the gates is said before the second is made."""
        if item.report is not None:
            alone = model_sweep([item], wanted or default_shown([item]))
            gates.refuse_unmeasured(conditions, {row.metric for row in alone.rows})
            series = [row.variant for row in alone.rows if row.variant is not None]
            gates.refuse_unmatched(conditions, {"variant": series} if series else {})

    with progress_bar(output.shows_progress) as progress:
        items, codes = (
            run_all(words, options, names, into, progress, seen) if words else read_all(names, seen)
        )
    report = with_provenance(model_sweep(items, wanted or default_shown(items)))
    report = report.with_verdicts([*report.verdicts, *gates.decide(report, conditions)])
    return gates.worst([write(report, output), *codes])


def refuse_unfinished(names: Sequence[str]) -> None:
    """Without a command nothing is run."""
    models = [name for name in names if not name.endswith(".json")]
    if models:
        raise UsageError(
            f"{models[0]} is no finished report: say what is run on it, as in `attn sweep inspect-model --model {models[0]}`."
        )


def read_all(
    names: Sequence[str], seen: "Callable[[Item], None]"
) -> "tuple[list[Item], list[int]]":
    """Reports as they lie there, such as the history of a training; one that cannot be read is told."""
    from attncli.cli.config.sweep_items import steps
    from attncli.reports import read
    from attncli.studies.reports.model_sweep import Item

    items, codes = [], []
    for name, step in zip(names, steps(names), strict=True):
        try:
            item = Item(name, step, read(name))
        except InputError as error:
            item = Item(name, step, None, str(error))
            codes.append(error.exit_code)
        seen(item)
        items.append(item)
    return items, codes


def refuse_one_file_for_all(options: "Options") -> None:
    """What every item would write over."""
    from attncli.cli.config.fingerprint import WRITTEN

    for name in WRITTEN:
        if options.get(name) is not None:
            raise UsageError(f"`{name}={str(options[name])!r}` would be written by every item: leave it out.")  # fmt: skip


def run_all(
    words: Sequence[str],
    options: "Options",
    names: Sequence[str],
    into: Path,
    progress: Callable[[int, int, str], None],
    seen: "Callable[[Item], None]",
) -> "tuple[list[Item], list[int]]":
    """The items in their order, and the exit codes of those that failed."""
    from attncli.cli.config.sweep_items import report_path, steps
    from attncli.processes.sharing import own_share, shared_out
    from attncli.studies.reports.model_sweep import Item

    share = own_share(names)

    def path_of(name: str) -> Path:
        return report_path(into, words[0], options, name)

    def done(item: tuple[int, str, int]) -> "tuple[Item, int]":
        place, name, step = item
        progress(share.index(place), len(share), "models")
        path_now = partial(path_of, name)
        report, failure, code = report_of([words[0], name, *words[1:]], path_now)
        found = Item(name, step, report, failure)
        seen(found)
        return found, code

    items = list(zip(range(len(names)), names, steps(names), strict=True))
    found = shared_out(items, done, lambda item: path_of(item[1]).name)
    return [item for item, _ in found], [code for _, code in found if code]


def report_of(
    command: Sequence[str], path_now: Callable[[], Path]
) -> "tuple[Report | None, str, int]":
    """The report of an earlier run, or of one that is made now; else what went wrong, and its exit code."""
    from attncli.cli.config.sweep_items import finished
    from attncli.processes.runs import run_to_file

    path = path_now()
    report = finished(path)
    if report is not None:
        return report, "", 0
    run = run_to_file(command, path)
    report = finished(path) if run.finished else None
    remove_leftovers(path)
    if report is not None and path_now() != path:  # its name speaks of files that are no more
        path.unlink()
        return None, CHANGED, InputError.exit_code
    return (report, "", 0) if report else (None, f"exit {run.code}: {run.sentence}", run.code)


def remove_leftovers(path: Path) -> None:
    """Half-written files of runs that were killed; they never had the item's name."""
    for leftover in path.parent.glob(f".{path.name}.*"):
        leftover.unlink(missing_ok=True)


def chosen(text: str) -> "ShownNumber":
    from attncli import gates
    from attncli.studies.reports.model_sweep import ShownNumber

    selection, aggregate = gates.parse_subject(text)
    if aggregate not in gates.AGGREGATES:
        raise UsageError(f"--show '{text}': a table needs one number: min(), max() or mean().")
    choose = partial(gates.select, wanted=selection)
    combine = gates.AGGREGATES[aggregate]
    return ShownNumber(selection.text, selection.metric, choose, aggregate, combine)


def default_shown(items: "Sequence[Item]") -> "ShownNumber":
    """Of the first report the first metric of its states, after the last layer; where it has none, its first metric."""
    report: Report | None = next((item.report for item in items if item.report), None)
    if report is None or not report.rows:
        return chosen("value")
    numbers = [row for row in report.rows if row.value is not None] or list(report.rows)
    states = [row for row in numbers if row.layer is not None and row.head is None]
    return chosen(f"{states[0].metric}[layer=-1]" if states else numbers[0].metric)
