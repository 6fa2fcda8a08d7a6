"""`attn inspect-model --weights-only`: from the options to the study, of files without torch."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from attncli.declare.dry_run import before_the_work
from attncli.errors import UsageError, it_or_them, said_of
from attncli.options.heads import HEAD, HeadOptions, numbers
from attncli.options.model import CheckpointOptions
from attncli.options.shared import checked_seed, separated
from attncli.sources import Source

if TYPE_CHECKING:
    from attncli.records import Report

GROUP = "weights"


def weights_study(
    source: Source,
    metric: Sequence[str],
    heads: HeadOptions,
    files: CheckpointOptions,
    seed: int,
    others: Sequence[str],
) -> "Callable[..., Report]":
    """`others`: names of options that are given and need a run."""
    from attncli.commands.inspect_weights.report import weights_only

    given = [*others, *(name for name in ("top", "sort") if getattr(heads, name) is not None)]
    if given:
        names = list(given)
        raise UsageError(
            f"{said_of(names, 'needs', 'need')} a run: leave {it_or_them(names)} out or drop `weights_only`.",
            idle=names,
            because=["weights_only"],
        )
    pairs = [part for part in separated(heads.heads) if HEAD.fullmatch(part)] if heads.heads else []
    if pairs:
        raise UsageError(
            f"`heads={pairs[0]!r}`: with `weights_only` name layers and heads apart, as in `layers=5, heads=1`."
        )
    refuse_metrics_of_runs(metric)
    before_the_work()
    return partial(
        weights_only,
        source,
        [name for name in metric if name != GROUP],
        numbers("layers", heads.layers) or None,
        numbers("heads", heads.heads) or None,
        how=files.to_fetch(),
        seed=checked_seed(seed),
    )


def refuse_metrics_of_runs(metric: Sequence[str]) -> None:
    """What heads do, rather than what their weights are."""
    from attncli.analysis.heads.metric_selection import members
    from attncli.options.heads import GROUPS

    of_runs = {*GROUPS, *(name for group in members().values() for name in group)} - {GROUP}
    found = [name for name in metric if name in of_runs]
    if found:
        raise UsageError(
            f"`metric={found[0]!r}` needs a run: leave it out or drop `weights_only`.",
            idle=["metric"],
            because=["weights_only"],
        )
