"""Options that have become commands: the old spelling is an error that names the new one.

For version 0.2 only: nothing still works under its old name.
"""

from collections.abc import Mapping
from typing import NamedTuple

from attncli.errors import UsageError


class ReplacementCommand(NamedTuple):
    """The command that replaces an option."""

    line: str
    """At a terminal."""
    call: str
    """In Python."""


VERIFY_FIT = ReplacementCommand("attn verify-fit FIT", "attn.verify_fit(FIT)")
HEAD_CAPACITY = ReplacementCommand("attn head-capacity MODEL", "attn.head_capacity(MODEL)")
ONE_HEAD = ReplacementCommand(
    "attn head-capacity MODEL --head LAYER.HEAD --pattern PATTERN",
    "attn.head_capacity(MODEL, head='LAYER.HEAD', pattern=PATTERN)",
)
RANK_HEADS = ReplacementCommand("attn reproduce rank-heads", "attn.reproduce.rank_heads()")
CIRCLE = ReplacementCommand("attn reproduce circle", "attn.reproduce.circle()")
LABELLING = ReplacementCommand(
    "attn reproduce memorise, sort or convex-hull",
    "attn.reproduce.memorise(), .sort() or .convex_hull()",
)
WEIGHTS = ReplacementCommand("attn inspect-weights MODEL", "attn.inspect_weights(MODEL)")
MAPS = ReplacementCommand("attn inspect-maps FILE", "attn.inspect_maps(FILE)")
DISPERSION = ReplacementCommand(
    "attn dispersion MODEL --lengths FROM:TO", "attn.dispersion(MODEL, lengths='FROM:TO')"
)
ATTRIBUTE = ReplacementCommand(
    "attn attribute MODEL --token TOKEN", "attn.attribute(MODEL, token=TOKEN)"
)
COUNT_PATHS = ReplacementCommand("attn count-paths", "attn.count_paths()")
SENSITIVITY = ReplacementCommand("attn sensitivity MODEL", "attn.sensitivity(MODEL)")

TRAINING = ("task", "train_steps", "save_training")
WATCHED = (*TRAINING, "watch_training", "as_published")

MOVED: Mapping[tuple[str, str], ReplacementCommand] = {
    (command, option): moved
    for command, moved, options in (
        ("approximate", VERIFY_FIT, ("verify",)),
        ("approximate", HEAD_CAPACITY, ("heads",)),
        ("approximate", ONE_HEAD, ("module", "inputs")),
        ("approximate", RANK_HEADS, (*TRAINING, "dimension", "ranks", "heads_times_rank")),
        ("rank-collapse", CIRCLE, (*WATCHED, "recurrence")),
        ("paths", COUNT_PATHS, ("count",)),
        ("paths", SENSITIVITY, ("sensitivity", "directions")),
        (
            "paths",
            LABELLING,
            (*WATCHED, "evaluate", "paths_per_sum", "sequences", "length", "tokens_from"),
        ),
        ("inspect-model", WEIGHTS, ("weights_only",)),
        ("inspect-model", MAPS, ("labels", "batch")),
        ("inspect-model", DISPERSION, ("sweep",)),
        ("inspect-model", ATTRIBUTE, ("attribute", "relevance")),
    )
    for option in options
}
"""By command and option, as the parameter is called."""

MOVED_FUNCTIONS: Mapping[str, str] = {"measure": "attn.inspect_maps"}
"""Functions of Python that have another name."""


def refuse_option_that_became_command(command: str, option: str, place: str = "") -> None:
    """Refuse `--verify` of approximate, typed or set at `place`, with the command that does it now."""
    moved = MOVED.get((command, option.replace("-", "_")))
    if moved is not None:
        where = f"{place}: " if place else ""
        raise UsageError(f"{where}--{option} has become a command: {moved.line}.")


def refuse_keyword_that_became_function(function: str, keyword: str) -> None:
    """Refuse `verify=` of approximate with the function that does it now."""
    moved = MOVED.get((function.replace("_", "-"), keyword))
    if moved is not None:
        raise UsageError(f"{keyword}= has become a function: {moved.call}.")
