"""`attn inspect-maps`"""

from typing import Any

from attncli.declare.option_declarations import declare_argument, declare_option
from attncli.options.head_selection import GROUPS, HeadOptions
from attncli.options.run_and_output import split_comma_separated_names
from attncli.options.value_completion import (
    complete_random_model_name,
    list_head_metrics,
    make_name_completer,
)
from attncli.python.questions import RunContext, question
from attncli.records import Report

EXAMPLES = """
attn inspect-maps maps.safetensors
attn inspect-maps attentions.npz --batch 0 --labels words.txt
attn inspect-maps maps.npy --metric spectra
attn inspect-maps maps.safetensors --heads 5.1 --plot maps.png
"""


@question()
def inspect_maps(
    *,
    maps: Any = declare_argument(
        metavar="FILE",
        help=(
            "Attention maps in .safetensors, .npz, .npy or .pt; in Python also arrays: [query, key] up to [layer, "
            "batch, head, query, key], or one for each layer."
        ),
        complete=complete_random_model_name,
    ),
    metric: list[str] | None = declare_option(
        metavar="NAME,…",
        complete=make_name_completer(lambda: [*GROUPS, *list_head_metrics()]),
        usual=True,
        help="Metrics or groups (see `attn list attention-metrics`). [default: those that decide the heads' roles]",
    ),
    labels: list[str] | None = declare_option(
        metavar="FILE|TOKEN",
        usual=True,
        help="The tokens along both axes: a file with one a line, or a JSON list; in Python also the tokens themselves.",
    ),
    batch: int | None = declare_option(
        metavar="N",
        usual=True,
        help="Text to measure, counted from 0, in a file of several.",
    ),
    pairs: int = declare_option(
        default=0,
        metavar="N",
        usual=True,
        help="Strongest query ← key pairs to report per head. [default: 0]",
    ),
    heads: HeadOptions,
    how: RunContext,
) -> Report:
    """What do attention maps that you have show: where each head looks, how uniformly, in which role?

    Keys count as hidden where no head of a layer looks ahead. Maps that `attn inspect-model --save-maps` has written
    also keep what the run measured besides the maps.
    """
    from attncli.commands.inspect_maps.run import plan_head_measurements, prepare_map_inspection

    names = split_comma_separated_names(metric or [])
    plan = plan_head_measurements(maps, names, pairs, heads, how.conditions)
    study = prepare_map_inspection(maps, plan, labels, batch, how, draws=bool(heads.heads))
    return how.run_measurement(study)
