"""The question of `attn inspect-model`."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from attncli.declare.options import WRITES, declare_argument, declare_option
from attncli.errors import UsageError
from attncli.io.tensor_file_endings import require_tensor_file
from attncli.options.completion import complete_names, complete_source, list_head_metrics
from attncli.options.heads import GROUPS, HeadOptions
from attncli.options.model import InputOptions, ModelOptions
from attncli.options.shared import split_names
from attncli.python.questions import RunContext, question
from attncli.records import Report

if TYPE_CHECKING:
    from attncli.gates import Condition

EXAMPLES = """
attn inspect-model gpt2                                     what each head does, on one screen
attn inspect-model ./checkpoint --text-file essays.txt --with-random-init -o heads.json
attn inspect-model ./checkpoint --metric attention,roles --top 10 --sort induction
attn inspect-model random:llama --random-tokens 512 --metric entropy_normalised --layers 0-1
attn inspect-model ./checkpoint --heads 5.1,5.3 --plot heads.png --save-maps maps.safetensors
attn inspect-model ./checkpoint --fail-if 'mean(sink) > 0.5'
"""


@question(own=("tokenizer", "inputs"), any_module=True)
def inspect_model(
    *,
    source: str = declare_argument(
        metavar="MODEL",
        help=("A model: org/name[@revision] on the Hub, ./folder, random:ARCH[?layers=2]."),
        complete=complete_source,
    ),
    metric: list[str] | None = declare_option(
        metavar="NAME,…",
        complete=complete_names(lambda: [*GROUPS, *list_head_metrics()]),
        usual=True,
        help=(
            "Metrics, or groups: attention, spectra, roles, copying, lazy, sinks, gates, memory, states, all. "
            "[default: those that decide the heads' roles]"
        ),
    ),
    with_random_init: bool = declare_option(
        default=False,
        usual=True,
        help="Also report each number for the same architecture with random weights.",
    ),
    with_shuffled_text: bool = declare_option(
        default=False, help="Also report each number for the same tokens in random order."
    ),
    tokens: int | None = declare_option(
        metavar="N",
        of_any_model=True,
        help="Maximum length of a text in tokens, or length of random ones.",
    ),
    save_maps: Path | None = declare_option(
        metavar="FILE.safetensors",
        usual=True,
        applies=WRITES,
        help="Save the first text's maps of the selected --layers and --heads.",
    ),
    pairs: int | None = declare_option(
        metavar="N",
        usual=True,
        help="Each head's N strongest query ← key pairs, against uniform attention.",
    ),
    strip_memory: int | None = declare_option(
        metavar="MIB", help="Memory limit for the rows of maps in work at a time. [default: 64]"
    ),
    seed: int = declare_option(
        default=0, help="Seed of random tokens, weights and shuffles. [default: 0]"
    ),
    heads: HeadOptions,
    model: ModelOptions,
    inputs: InputOptions,
    how: RunContext,
) -> Report:
    """What does each head and layer do: where it looks, how uniformly, in which role, and is the model sick?

    Every number comes with that of uniform attention over the same visible keys. Maps are measured in strips while the
    model runs and are never stored, so longer texts cost time but no memory.
    """

    if save_maps is not None:
        require_tensor_file(save_maps)
    if pairs == 0:
        raise UsageError("`pairs=0`: it must be at least 1.")
    from attncli.analysis.model_argument_checks import check_options_before_loading
    from attncli.analysis.source_arguments import resolve_source

    names = split_names(metric or [])
    subject = resolve_source(source, "inspect_model", how.output, save_maps)
    check_options_before_loading(subject, model, inputs, tokens, seed)
    validate_names_and_numbers(how.conditions, names, pairs or 0, heads)
    from attncli.commands.inspect_model.request import InspectionRequest
    from attncli.commands.inspect_model.run import prepare_inspection

    request = InspectionRequest(
        subject,
        names,
        with_random_init,
        with_shuffled_text,
        tokens,
        seed=seed,
        save_maps=save_maps,
        draws_maps=how.pictures and bool(heads.heads),
        for_page=how.maps,
        strip_memory=strip_memory,
        pairs=pairs or 0,
    )
    study = prepare_inspection(request, heads, model, inputs, how.say)
    return how.measure(study)


def validate_names_and_numbers(
    conditions: "Sequence[Condition]", metric: Sequence[str], pairs: int, heads: HeadOptions
) -> None:
    """Refuse impossible layers, heads, metrics, orders and gates before torch is imported."""
    from attncli.analysis.heads.metric_selection import (
        LINEAR_HEADS,
        choose_metrics,
        list_metrics_by_group,
    )
    from attncli.analysis.heads.ordering import select_ranking
    from attncli.gates import refuse_gates_on_unmeasured_metrics

    heads.choose_layers()
    heads.head_filter()
    chosen = choose_metrics(metric, pairs)
    select_ranking(heads, chosen.heads)
    if conditions:
        from attncli.analysis.heads.rows.extra_metric_definitions import COMPLETENESS

        others = [name for group in list_metrics_by_group().values() for name in group]
        of_linear = [COMPLETENESS, *([] if metric else LINEAR_HEADS)]
        measured = [*chosen.definitions(), *of_linear]
        refuse_gates_on_unmeasured_metrics(conditions, measured, others)
