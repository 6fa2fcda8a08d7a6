"""The question of `attn approximate`."""

from attncli.declare.option_declarations import Applies, declare_option
from attncli.errors import require_known_names
from attncli.io.tensor_file_extensions import require_safetensors_extension
from attncli.options.model_and_input import InputOptions, PatternModelOptions
from attncli.options.pattern_approximation import (
    PatternOptions,
    PrecisionOptions,
    RandomDrawOptions,
    WidthSearchOptions,
    build_fit_request,
)
from attncli.python.questions import RunContext, question
from attncli.records import Report

EXAMPLES = """
attn approximate                                             # one random pattern, the narrowest module
attn approximate --pattern window:3 --pattern global:2+window:3 --length 128 -o fit.safetensors
attn approximate --decide --pattern window:3 --length 64
attn approximate --decide --pattern window:3 --length 64 --width 2
attn approximate --pattern random:k=2 --method auto,cyclic,jl --dtype float32
attn approximate --pattern previous --sweep length=64:1024 --seeds 3
attn approximate --pattern random:k=2 --frontier 4:64 --plot
attn approximate --pattern ./minilm:0.0:top=4 --text "The quick brown fox jumps over the lazy dog."
attn approximate --pattern permutation --sweep length=64:1024 --frontier 2,3,4,5,6,7,8 --method cyclic,certificate:keys=spread --total-variation 0.999
"""


OF_NO_MODULE = Applies(
    excludes=("save_module",),
    why="`save_module` goes with a plain run: only that makes a module to write.",
)


@question(own=("save_module",))
def approximate(
    *,
    patterns: PatternOptions,
    sweep: str | None = declare_option(
        metavar="length=FROM:TO",
        usual=True,
        applies=OF_NO_MODULE,
        help="Smallest width as a function of length, with its fitted law.",
    ),
    frontier: str | None = declare_option(
        metavar="FROM:TO",
        usual=True,
        applies=OF_NO_MODULE,
        help="Smallest logit scale at each of these widths, per dtype.",
    ),
    decide: bool = declare_option(
        default=False,
        usual=True,
        applies=(
            OF_NO_MODULE,
            Applies(
                excludes=("sweep", "frontier"),
                why="{name} and {other} exclude each other: ask one at a time.",
            ),
            Applies(excludes=("method",), why="`decide` tries every method: leave `method` out."),
        ),
        help=(
            "Is the width enough, or which is the smallest? Yes with a verified module, no with a proof, "
            "otherwise bounds on both sides."
        ),
    ),
    timing: bool = declare_option(
        default=False,
        applies=Applies(
            excludes=("decide", "sweep", "frontier"),
            why="`timing` is of a plain run's methods: leave it out.",
        ),
        help="Add CPU seconds, which differ from run to run.",
    ),
    files: PatternModelOptions,
    texts: InputOptions,
    search: WidthSearchOptions,
    precision: PrecisionOptions,
    run: RandomDrawOptions,
    how: RunContext,
) -> Report:
    """Can one attention module with fixed weights reproduce these patterns, at what head dimension and logit scale?

    After "On the expressive power of self-attention matrices": in softmax(X W_Q W_K^T X^T), W_Q and W_K depend on the
    width alone, and only X on the pattern. Every fit is verified after rounding, by evaluating it again. With
    -o FILE.safetensors the module is written there and the report goes to stdout.

    """
    from attncli.analysis.fits.target_patterns import collect_target_patterns
    from attncli.commands.approximate import run as runs

    if how.conditions:
        refuse_gates_on_unknown_metrics([condition.metric for condition in how.conditions])
    if how.save_module is not None:
        require_safetensors_extension(how.save_module)
    request = build_fit_request(patterns, search, precision)
    if sweep is not None:
        runs.refuse_fixed_length_patterns(patterns)
    chosen = collect_target_patterns(patterns, texts, files, run.list_seeds()[0])
    if sweep is not None or frontier is not None:
        from attncli.commands.approximate.runs_over_sizes import sweep_length_and_width

        report = sweep_length_and_width(sweep, frontier, chosen, search, request, run, how.progress)
    elif decide:
        report = runs.bound_width_for_chosen_patterns(chosen, search, request, run, how)
    else:
        report = runs.fit_chosen_patterns(chosen, search, request, run, timing, how)
    return chosen.add_pattern_origins_to_report(
        report.with_verdicts(()) if search.allow_unmet else report
    )


def refuse_gates_on_unknown_metrics(names: list[str]) -> None:
    """A gate on a number that no mode of this command has is refused before the work."""
    from attncli.analysis.fits.fit_rows import FIT_METRICS
    from attncli.commands.approximate.fixed_attention_module.smallest_width_bounds import (
        DECISION_METRICS,
    )
    from attncli.commands.approximate.smallest_width_and_logits.logit_scale_growth_with_length import (
        SCALE_METRICS,
    )
    from attncli.commands.approximate.smallest_width_and_logits.smallest_logits_by_width import (
        FRONTIER_METRICS,
    )
    from attncli.commands.approximate.smallest_width_and_logits.width_growth_with_length import (
        GROWTH_METRICS,
    )

    tables = (FIT_METRICS, DECISION_METRICS, GROWTH_METRICS, FRONTIER_METRICS, SCALE_METRICS)
    known = {name for table in tables for name in table}
    require_known_names("metric in the gate", names, known)
