"""From the options of `attn inspect-weights` to its report, from files without torch."""

from collections.abc import Sequence
from functools import partial

from attncli.analysis import Study
from attncli.errors import UsageError
from attncli.model_and_file_sources import Source
from attncli.options.head_selection import LayerHeadOptions, parse_layer_or_head_ranges
from attncli.options.model_and_input import WeightFileOptions
from attncli.options.run_and_output import validate_seed

GROUP = "weights"


def prepare_weight_inspection(
    source: Source,
    metric: Sequence[str],
    heads: LayerHeadOptions,
    files: WeightFileOptions,
    seed: int,
) -> Study:
    """Prepare the metrics of these heads' weights; refuse metrics that need a forward pass."""
    from attncli.commands.inspect_weights.report import build_weights_report

    refuse_metrics_of_forward_pass(metric)
    return partial(
        build_weights_report,
        source,
        [name for name in metric if name != GROUP],
        parse_layer_or_head_ranges("layers", heads.layers) or None,
        parse_layer_or_head_ranges("heads", heads.heads) or None,
        how=files.build_fetch_settings(),
        seed=validate_seed(seed),
    )


def refuse_metrics_of_forward_pass(metric: Sequence[str]) -> None:
    """Refuse metrics of maps and states, which need a forward pass."""
    from attncli.analysis.heads.metric_selection import list_metrics_by_group
    from attncli.options.head_selection import GROUPS

    of_runs = {*GROUPS, *(name for group in list_metrics_by_group().values() for name in group)} - {
        GROUP
    }
    found = [name for name in metric if name in of_runs]
    if found:
        raise UsageError(
            f"`metric={found[0]!r}` needs a run: ask `inspect_model`, or leave it out.",
            about=["metric"],
        )
