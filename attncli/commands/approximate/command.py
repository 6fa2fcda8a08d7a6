"""The question of `attn approximate`."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from attncli.commands.reproduce.options import KeptTraining
from attncli.commands.reproduce.rank_heads.run import (
    FitTaskOptions,
    changed,
    rank_head_study,
    refuse_fits_and_tasks,
)
from attncli.declare.dry_run import before_the_work
from attncli.declare.options import Option
from attncli.errors import UsageError, it_or_them, said_of, unknown_name
from attncli.io.tensor_names import require_tensor_file
from attncli.options.completion import completion
from attncli.options.model import CheckpointOptions, InputOptions
from attncli.options.patterns import (
    DrawOptions,
    PatternOptions,
    PrecisionOptions,
    SearchOptions,
    request_of,
)
from attncli.python.question import How, question
from attncli.records import Report

if TYPE_CHECKING:
    from attncli.commands.approximate.run import RealInputs
    from attncli.head_weights.head import Head

FREE, EMBEDDINGS = "free", "embeddings"
"""What inputs are made of."""


@question(own=("save_module",))
def approximate(
    *,
    patterns: PatternOptions,
    module: Annotated[
        str | None,
        Option(
            metavar="MODEL:LAYER.HEAD",
            usual=True,
            help="The inputs that make a trained head show the patterns, after rounding.",
        ),
    ] = None,
    inputs: Annotated[
        str,
        Option(
            metavar="free|embeddings",
            complete=completion(lambda: [FREE, EMBEDDINGS]),
            help=(
                "For a head of layer 0: try any vectors, or also the embeddings of the model's own tokens. [default: "
                "free]"
            ),
        ),
    ] = FREE,
    heads: Annotated[
        str | None,
        Option(
            metavar="MODEL",
            usual=True,
            help=(
                "All heads of a model: how narrow a module reproduces each one's own map, which patterns it could "
                "show, how far the input moves it."
            ),
        ),
    ] = None,
    sweep: Annotated[
        str | None,
        Option(
            metavar="length=FROM:TO",
            usual=True,
            help="Smallest width as a function of length, with its fitted law.",
        ),
    ] = None,
    frontier: Annotated[
        str | None,
        Option(
            metavar="FROM:TO",
            usual=True,
            help="Smallest logit scale at each of these widths, per dtype.",
        ),
    ] = None,
    verify: Annotated[
        Path | None,
        Option(metavar="FILE", help="Measure a saved fit again, and nothing else."),
    ] = None,
    decide: Annotated[
        bool,
        Option(
            "--decide",
            usual=True,
            help=(
                "Is the width enough, or which is the smallest? Yes with a verified module, no with a proof, "
                "otherwise bounds on both sides."
            ),
        ),
    ] = False,
    timing: Annotated[
        bool, Option("--timing", help="Add CPU seconds, which differ from run to run.")
    ] = False,
    files: CheckpointOptions,
    texts: InputOptions,
    search: SearchOptions,
    precision: PrecisionOptions,
    task: FitTaskOptions,
    training: KeptTraining,
    run: DrawOptions,
    how: How,
) -> Report:
    """Can one attention module with fixed weights reproduce these patterns, at what head dimension and logit scale?

    After "On the expressive power of self-attention matrices": in softmax(X W_Q W_K^T X^T), W_Q and W_K depend on the
    width alone, and only X on the pattern. Every fit is verified after rounding, by evaluating it again. With
    -o FILE.safetensors the module is written there and the report goes to stdout.

    With --task rank-heads, attn instead trains layers of heads to pick the token nearest to a query on the sphere, after
    "On the benefits of rank in attention layers": at equal H · r, few heads of full rank against many of low rank.
    """
    from attncli.analysis.fits.chosen_patterns import choose
    from attncli.commands.approximate import run as runs

    check_gates([condition.metric for condition in how.conditions])
    if how.save_module is not None:
        require_tensor_file(how.save_module)
    refuse_contradictions(
        module, heads, sweep, frontier, verify, decide or None, how.save_module, search, task.task
    )
    refuse_other_inputs(inputs, module)
    if timing and (decide or any((task.task, module, heads, sweep, frontier, verify))):
        raise UsageError("`timing` is of a plain run's methods: leave it out.", idle=["timing"])
    refuse_fits_and_tasks(task, training, patterns, [search, precision, files, texts])
    if task.task is not None:
        study = rank_head_study(task, training, patterns.length, run)
        before_the_work()
        from attncli.models.loading.isolate_global_state import alone

        alone()
        trained: Report = study(progress=how.progress)
        return trained
    if verify is not None:
        made = replace(search, allow_unmet=False)
        refuse_beside_a_file([patterns, made, precision, files, texts, run])
        before_the_work()
        return excused(runs.verified(verify, how), search)
    request = request_of(patterns, search, precision)
    if heads is not None:
        from attncli.commands.head_capacity.run import surveyed

        return surveyed(heads, patterns, texts, search, request, run, files, how)
    head = None if module is None else runs.head_of(module, files, how)
    real = real_inputs_of(inputs, module, head, files)
    runs.refuse_maps_of_other_lengths(patterns, sweep)
    before_the_work()
    idle = () if real else files.given_for_runs() if head else files.given_for_a_model()
    chosen = choose(patterns, texts, files, run.all_seeds()[0], idle)
    if head is not None:
        report = runs.on_head(head, chosen, search, request, run, how, real)
    elif sweep is not None or frontier is not None:
        report = runs.varied(sweep, frontier, chosen, search, request, run, how.progress)
    elif decide:
        report = runs.decided(chosen, search, request, run, how)
    else:
        report = runs.solved(chosen, search, request, run, timing, how)
    return chosen.noted(excused(report, search))


def excused(report: Report, search: SearchOptions) -> Report:
    """Requests that are not met fail the run unless it only explores."""
    return report.with_verdicts(()) if search.allow_unmet else report


def refuse_beside_a_file(groups: Sequence[Any]) -> None:
    """A saved fit says itself what was asked of it."""
    idle = [name for group in groups for name in changed(group)]
    if idle:
        raise UsageError(
            f"{said_of(idle, 'says', 'say')} what is to be made: `verify` measures what was, leave {it_or_them(idle)} out.",
            idle=idle,
            because=["verify"],
        )


def refuse_other_inputs(inputs: str, module: str | None) -> None:
    if inputs not in (FREE, EMBEDDINGS):
        raise unknown_name("inputs", inputs, (FREE, EMBEDDINGS))
    if inputs != FREE and module is None:
        raise UsageError(
            "`inputs='embeddings'` goes with `module='MODEL:0.HEAD'`.",
            idle=["inputs"],
        )


def real_inputs_of(
    inputs: str, module: str | None, head: "Head | None", files: CheckpointOptions
) -> "RealInputs | None":
    """The model whose tokens are to be tried, loaded when the free inputs are known."""
    if inputs == FREE or module is None or head is None:
        return None
    from attncli.commands.head_capacity.real_tokens import real_tokens

    return real_tokens(module, head, files)


def refuse_contradictions(
    module: str | None,
    heads: str | None,
    sweep: str | None,
    frontier: str | None,
    verify: Path | None,
    decide: bool | None,
    save: Path | None,
    search: SearchOptions,
    task: str | None,
) -> None:
    """One run answers one question."""
    asked = {
        "task": task,
        "verify": verify,
        "module": module,
        "heads": heads,
        "sweep": sweep,
        "frontier": frontier,
        "decide": decide,
    }
    given = [name for name, value in asked.items() if value is not None]
    varied = sweep is not None or frontier is not None
    alone = (task, verify, module, heads, decide)
    if sum((*(each is not None for each in alone), varied)) > 1:
        raise UsageError(
            "`task`, `verify`, `module`, `heads`, `decide`, and `sweep` or `frontier` exclude each other: ask one at a time.",
            rivals=given,
        )
    if save and (task or verify is not None or heads is not None or decide or varied):
        raise UsageError(
            "`save_module` goes with a plain run or `module`: only those make a module to write.",
            because=given,
        )
    if search.width is not None and (search.find_width or varied):
        raise UsageError(
            "`width` fixes what `find_width`, `sweep` and `frontier` vary: leave it out.",
            idle=["width"],
            because=["find_width", "sweep", "frontier"],
        )
    if module is not None and (search.width is not None or search.find_width):
        raise UsageError(
            "`module` fixes the width: leave `width` and `find_width` out.",
            idle=["width", "find_width"],
            because=["module"],
        )


def check_gates(names: list[str]) -> None:
    """A gate on a number that no mode of this command has is refused before the work."""
    from attncli.analysis.fits.fit_rows import FIT_METRICS
    from attncli.commands.approximate.least_sizes.frontier import FRONTIER_METRICS
    from attncli.commands.approximate.least_sizes.scale_growth import SCALE_METRICS
    from attncli.commands.approximate.least_sizes.width_growth import GROWTH_METRICS
    from attncli.commands.approximate.one_module.decide import DECISION_METRICS
    from attncli.commands.head_capacity.one_head.trained_head import HEAD_METRICS, REAL_METRICS
    from attncli.commands.head_capacity.survey_rows import SURVEY_METRICS
    from attncli.commands.reproduce.rank_heads.rank_head_metrics import RANK_HEAD_METRICS

    tables = (
        FIT_METRICS,
        DECISION_METRICS,
        GROWTH_METRICS,
        FRONTIER_METRICS,
        SCALE_METRICS,
        HEAD_METRICS,
        REAL_METRICS,
        SURVEY_METRICS,
        RANK_HEAD_METRICS,
    )
    known = {name for table in tables for name in table}
    for name in names:
        if name not in known:
            raise unknown_name("metric in the gate", name, known)
