"""The table of commands: for each its module, the question it answers, and the kinds of SOURCE it
takes.

Help, completion, error messages and sweeps read this table, so that none of them imports a command
that is not run.
"""

import importlib
from collections.abc import Mapping
from dataclasses import dataclass

from attncli.declare.option_declarations import Question
from attncli.model_and_file_sources import ARRAYS, MODELS, Kind

NETWORKS_AND_MODELS: tuple[Kind, ...] = ("synthetic", "network", *MODELS)
GATE = "METRIC > NUMBER"
"""In the help of --fail-if; every command shows a condition of its own in its place."""


@dataclass(frozen=True, slots=True)
class CommandEntry:
    """One command."""

    function: str
    """`module:function` below `attncli.commands`."""
    summary: str
    """The question it answers: the first line of its help."""
    takes: tuple[Kind, ...] = ()
    """Kinds of SOURCE."""
    gate: str = GATE
    """A condition on what it measures: the example in the help of --fail-if."""
    runs_models: bool = False
    """Whether its first argument is a model, so that `sweep` and `compare --by` run it."""
    reads_texts: bool = True
    """Whether a model reads texts for it, which can be divided over processes."""


COMMANDS: Mapping[str, CommandEntry] = {
    "rank-collapse": CommandEntry(
        "rank_collapse.command:rank_collapse",
        "How fast does the residual to rank 1 decay over the layers, at which order, and what prevents it?",
        NETWORKS_AND_MODELS,
        runs_models=True,
        gate="log10_residual[layer=-1] < -3",
    ),
    "approximate": CommandEntry(
        "approximate.command:approximate",
        "Can one attention module with fixed weights reproduce these patterns, at what head dimension and logit scale?",
        gate="logit_scale > 40",
    ),
    "inspect-model": CommandEntry(
        "inspect_model.command:inspect_model",
        "What does each head and layer do: where it looks, how uniformly, in which role, and is the model sick?",
        MODELS,
        runs_models=True,
        gate="mean(sink) > 0.5",
    ),
    "inspect-weights": CommandEntry(
        "inspect_weights.command:inspect_weights",
        "What does each head compare and move, by its weights alone?",
        MODELS,
        runs_models=True,
        reads_texts=False,
        gate="min(ov_stable_rank) < 1.5",
    ),
    "inspect-maps": CommandEntry(
        "inspect_maps.command:inspect_maps",
        "What do attention maps that you have show: where each head looks, how uniformly, in which role?",
        ARRAYS,
        gate="mean(sink) > 0.5",
    ),
    "dispersion": CommandEntry(
        "dispersion.command:dispersion",
        "How does the attention of each head disperse as the text gets longer?",
        MODELS,
        runs_models=True,
        gate="largest_weight_slope < -0.9",
    ),
    "attribute": CommandEntry(
        "attribute.command:attribute",
        "Which input tokens does a token's state after the last block come from?",
        MODELS,
        runs_models=True,
        gate="attribution_share[position=0] > 0.5",
    ),
    "paths": CommandEntry(
        "paths.command:paths",
        "How much of the output travels through paths of each length?",
        NETWORKS_AND_MODELS,
        runs_models=True,
        gate="path_norm_share[length=1] > 0.5",
    ),
    "count-paths": CommandEntry(
        "count_paths.command:count_paths",
        "How many paths of each length does the attention of a network have, from its sizes alone?",
        NETWORKS_AND_MODELS,
        gate="log10_path_count > 9",
    ),
    "sensitivity": CommandEntry(
        "sensitivity.command:sensitivity",
        "How sensitive is the last token's final state to each token's initial state?",
        MODELS,
        runs_models=True,
        gate="sensitivity[position=0] > 5",
    ),
    "head-capacity": CommandEntry(
        "head_capacity.command:head_capacity",
        "Which patterns could each trained head show, what head dimension do its own maps need, and what moves them?",
        MODELS,
        gate="own_map_d > 8",
    ),
    "verify-fit": CommandEntry(
        "verify_fit.command:verify_fit",
        "Does a saved fit still reproduce its patterns, measured again from the file alone?",
        ("fit",),
        gate="total_variation > 0.01",
    ),
    "reproduce circle": CommandEntry(
        "reproduce.circle.command:circle",
        "Do two points become one, when a layer trained to move them along a circle is applied to its own output?",
        gate="collapse_share[SAN] < 1",
    ),
    "reproduce memorise": CommandEntry(
        "reproduce.sequence_labelling.memorise_command:memorise",
        "How well do a few paths of one length recall random labels that a network has learned by heart?",
        gate="accuracy[entire model] < 0.9",
    ),
    "reproduce sort": CommandEntry(
        "reproduce.sequence_labelling.sort_command:sort",
        "How well do a few paths of one length sort digits, in a network trained to sort them?",
        gate="accuracy[entire model] < 0.9",
    ),
    "reproduce convex-hull": CommandEntry(
        "reproduce.sequence_labelling.convex_hull_command:convex_hull",
        "How well do a few paths of one length find the corners of a cloud of points, in a network trained to find them?",
        gate="accuracy[entire model] < 0.9",
    ),
    "reproduce rank-heads": CommandEntry(
        "reproduce.rank_heads.command:rank_heads",
        "Can many heads of low rank do what few heads of full rank do, at the same number of heads × rank?",
        gate="error_share > 0.5",
    ),
    "check": CommandEntry(
        "utilities.check_saved_report:check",
        "Does a saved report pass these gates, and has it moved away from an earlier one?",
        ("report",),
        gate="log10_residual[layer=-1] < -3",
    ),
    "compare": CommandEntry(
        "utilities.compare_reports:compare",
        "What changed between two reports or models, and is it more than noise?",
        ("report",),
        gate="change_in_spreads > 3",
    ),
    "sweep": CommandEntry(
        "utilities.sweep.sweep_in_terminal:sweep",
        "How does a number change over many models, such as the checkpoints of a training run?",
        gate="log10_residual < -3",
    ),
    "ci": CommandEntry(
        "utilities.continuous_integration.command:ci",
        "Do the checks in the configuration file pass?",
        gate="exit_code > 1",
    ),
    "config show": CommandEntry(
        "utilities.show_settings:show_option_settings",
        "Which options are set by the environment or a file, and where.",
    ),
    "generate network": CommandEntry(
        "generate.network:generate_network",
        "A network's weights and embeddings, in float64, for `attn rank-collapse FILE` and for other programs.",
    ),
    "generate maps": CommandEntry(
        "generate.maps:generate_maps",
        "Attention maps with known answers: one layer per kind of map, [head, query, key] in float64.",
    ),
    "list": CommandEntry(
        "utilities.list.command:list_registered_names",
        "List metrics, patterns, model types and whatever else has a name, one line each.",
    ),
    "guide": CommandEntry(
        "utilities.show_guides:guide",
        "Read how to use attn and how to read its numbers: one guide for each question.",
    ),
}

GROUPS: Mapping[str, str] = {
    "config": "Show options set by a config file or the environment.",
    "reproduce": "The papers' small training experiments, each trained here.",
    "generate": "Write a synthetic network or attention maps to a safetensors file.",
}
"""Commands of two words, by their first word."""

MODEL_COMMANDS = tuple(name for name, entry in COMMANDS.items() if entry.runs_models)
"""Commands whose first argument is a model."""


def import_command_function(command: str) -> Question:
    """The command's function, with its groups of options."""
    place, _, name = COMMANDS[command].function.partition(":")
    found: Question = getattr(importlib.import_module(f"attncli.commands.{place}"), name)
    return found
