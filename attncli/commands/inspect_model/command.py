"""The question of `attn inspect-model`."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from attncli.declare.dry_run import before_the_work
from attncli.declare.options import WRITES, Argument, Option
from attncli.errors import UsageError
from attncli.io.tensor_names import require_tensor_file
from attncli.options.completion import complete_source, completion, head_metrics
from attncli.options.heads import GROUPS, HeadOptions
from attncli.options.model import InputOptions, ModelOptions
from attncli.options.shared import separated
from attncli.python.question import MEASURING, How, question
from attncli.records import Report

if TYPE_CHECKING:
    from attncli.gates import Condition


NO_LENGTHS = ("top", "sort", "random_tokens")
"""What says nothing of a sweep over lengths."""


@question(own=("tokenizer", "inputs"), any_module=True)
def inspect_model(
    *,
    source: Annotated[
        str,
        Argument(
            metavar="MODEL",
            help=(
                "A model: org/name[@revision] on the Hub, ./folder, random:ARCH[?layers=2]; or saved maps: .npz, "
                ".npy, .safetensors, .pt."
            ),
            complete=complete_source,
        ),
    ],
    metric: Annotated[
        list[str] | None,
        Option(
            metavar="NAME,…",
            complete=completion(lambda: [*GROUPS, *head_metrics()]),
            usual=True,
            help=(
                "Metrics, or groups: attention, spectra, roles, copying, lazy, sinks, gates, memory, states, all; "
                "weights with --weights-only. [default: those that decide the heads' roles]"
            ),
        ),
    ] = None,
    with_random_init: Annotated[
        bool,
        Option(
            "--with-random-init",
            usual=True,
            help="Also report each number for the same architecture with random weights.",
        ),
    ] = False,
    with_shuffled_text: Annotated[
        bool,
        Option(
            "--with-shuffled-text",
            help="Also report each number for the same tokens in random order.",
        ),
    ] = False,
    tokens: Annotated[
        int | None,
        Option(metavar="N", help="Maximum length of a text in tokens, or length of random ones."),
    ] = None,
    weights_only: Annotated[
        bool,
        Option(
            "--weights-only",
            usual=True,
            help="Analyse weights only (spectra per head), without running the model.",
        ),
    ] = False,
    save_maps: Annotated[
        Path | None,
        Option(
            metavar="FILE.safetensors",
            usual=True,
            typed_alone=WRITES,
            help="Save the first text's maps of the selected --layers and --heads.",
        ),
    ] = None,
    pairs: Annotated[
        int | None,
        Option(
            metavar="N",
            usual=True,
            help="Each head's N strongest query ← key pairs, against uniform attention.",
        ),
    ] = None,
    labels: Annotated[
        Path | None,
        Option(
            metavar="FILE",
            help="Tokens of saved maps: one per line, or a JSON list.",
        ),
    ] = None,
    batch: Annotated[
        int | None,
        Option(metavar="N", help="Which text of saved maps with several, counted from 0."),
    ] = None,
    attribute: Annotated[
        str | None,
        Option(
            metavar="TOKEN",
            usual=True,
            help=(
                "Attribute TOKEN's final hidden state to the input tokens. TOKEN: a position (negative counts from "
                "the end) or a piece of the text. [table: the --top N by share]"
            ),
        ),
    ] = None,
    sweep: Annotated[
        str | None,
        Option(
            metavar="tokens=FROM:TO",
            help=(
                "Dispersion: how largest_weight and entropy, or --metric, of each head change with the length of the "
                "text, doubling FROM … TO; on random tokens if no text is given."
            ),
        ),
    ] = None,
    relevance: Annotated[
        str | None,
        Option(
            metavar="TARGET",
            help=(
                "With --attribute: also Chefer's relevance for a class, a token of the vocabulary, the top "
                "prediction, or the state itself: CLASS, TOKEN, id, top, state."
            ),
        ),
    ] = None,
    strip_memory: Annotated[
        int | None,
        Option(
            metavar="MIB", help="Memory limit for the rows of maps in work at a time. [default: 64]"
        ),
    ] = None,
    seed: Annotated[
        int, Option(help="Seed of random tokens, weights and shuffles. [default: 0]")
    ] = 0,
    heads: HeadOptions,
    model: ModelOptions,
    inputs: InputOptions,
    how: How,
) -> Report:
    """What does each head and layer do: where it looks, how uniformly, in which role, and is the model sick?

    Every number comes with that of uniform attention over the same visible keys. Maps are measured in strips while the
    model runs and are never stored, so longer texts cost time but no memory.
    """

    conditions = how.conditions
    if save_maps is not None:
        require_tensor_file(save_maps)
    names = separated(metric or [])
    own = {
        "with_random_init": with_random_init,
        "with_shuffled_text": with_shuffled_text,
        "save_maps": save_maps is not None,
        "strip_memory": strip_memory is not None,
        "pairs": pairs is not None,
        "labels": labels is not None,
        "batch": batch is not None,
    }
    others = [name for name, given in own.items() if given]
    from attncli.analysis import network_sources as sources
    from attncli.analysis.prepare import refuse_at_once, refuse_beside_inputs

    asker = "inspect_model(weights_only=True)" if weights_only else "inspect_model"
    because = ["weights_only"] * weights_only
    subject = sources.named(source, asker, how.output, save_maps, because=because)
    if subject.is_model and not weights_only:
        refuse_at_once(subject, model, inputs, tokens, seed)
    refuse_beside_inputs(subject, {"attribute": attribute, "relevance": relevance, "sweep": sweep})
    if relevance is not None and attribute is None:
        raise UsageError(
            f"`relevance={relevance!r}` is told of one token: name it with `attribute`, such as -1 for the last.",
            idle=["relevance"],
        )
    if attribute is not None:
        from attncli.commands.attribute.run import attribution_study

        others += [*["metric"] * bool(names), *["weights_only"] * weights_only]
        others += ["sweep"] * (sweep is not None)
        others += [name for name in heads.given() if name != "top"]
        study = attribution_study(
            subject,
            attribute,
            heads.top,
            others,
            conditions,
            model,
            inputs,
            tokens,
            seed,
            relevance,
            how.say,
        )
    elif sweep is not None:
        from attncli.commands.dispersion.run import length_study

        others += [*["tokens"] * (tokens is not None), *["weights_only"] * weights_only]
        others += [name for name in (*heads.given(), *inputs.given()) if name in NO_LENGTHS]
        study = length_study(subject, sweep, names, heads, others, conditions, model, inputs, seed)
    elif weights_only:
        from attncli.commands.inspect_weights.run import weights_study

        others += [*["tokens"] * (tokens is not None)]
        others += [*model.given_for_runs(), *inputs.given()]
        study = weights_study(subject, names, heads, model, seed, others)
    else:
        if pairs == 0:
            raise UsageError("`pairs=0`: it must be at least 1.")
        refuse_wrong_words(conditions, names, pairs or 0, heads)
        from attncli.commands.inspect_model.run import Asked, study_of

        draws_maps = how.pictures and bool(heads.heads)
        asked = Asked(
            subject,
            names,
            with_random_init,
            with_shuffled_text,
            tokens,
            seed,
            save_maps,
            draws_maps,
            how.maps,
            strip_memory,
            pairs or 0,
            batch,
            labels,
        )
        study = study_of(asked, heads, model, inputs, how.say)
    before_the_work()
    how.doing(MEASURING)
    report: Report = study(progress=how.progress)
    return report


def refuse_wrong_words(
    conditions: "Sequence[Condition]", metric: Sequence[str], pairs: int, heads: HeadOptions
) -> None:
    """Layers, heads and metrics that there cannot be, and orders and gates by what is not measured, before torch is imported."""
    from attncli.analysis.heads.metric_selection import LINEAR_HEADS, choose, members
    from attncli.analysis.heads.ordering import ranking
    from attncli.gates import refuse_unmeasured

    heads.chosen_layers()
    heads.keeps()
    chosen = choose(metric, pairs)
    ranking(heads, chosen.heads)
    if conditions:
        from attncli.analysis.heads.rows.own_metrics import COMPLETENESS

        others = [name for group in members().values() for name in group]
        of_linear = [COMPLETENESS, *([] if metric else LINEAR_HEADS)]
        measured = [*chosen.definitions(), *of_linear]
        refuse_unmeasured(conditions, measured, others)
