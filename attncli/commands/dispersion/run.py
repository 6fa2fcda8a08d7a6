"""`attn inspect-model --sweep`: from the options to the study."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from attncli.analysis.heads.metric_selection import Metrics, choose
from attncli.analysis.heads.model_heads import HeadPlan
from attncli.analysis.heads.prepare import heads_there, proved_softmax, refuse_absent
from attncli.capture import STRIP_MEMORY
from attncli.commands.dispersion.report import DEFAULT, definitions, length_sweep
from attncli.declare.dry_run import before_the_work
from attncli.errors import UsageError, counted, it_or_them, said_of
from attncli.gates import Condition, refuse_unmeasured
from attncli.models.inputs.requested_input import WantedInput
from attncli.models.inputs.texts import ModelInput, inputs_of
from attncli.models.inputs.token_ranges import longest
from attncli.models.loading.load import Checkpoint, load
from attncli.models.loading.memory_estimate import require_room_to_run
from attncli.options.heads import HeadOptions
from attncli.options.model import InputOptions, ModelOptions, refuse_without_a_model
from attncli.options.size_ranges import parse_sweep
from attncli.records import Report
from attncli.sources import Source

SWEPT = {"tokens": int}
FEWEST = 2
"""Lengths that a slope is told from."""


def length_study(
    source: Source,
    sweep: str,
    names: Sequence[str],
    heads: HeadOptions,
    others: Sequence[str],
    conditions: Sequence[Condition],
    model: ModelOptions,
    inputs: InputOptions,
    seed: int,
) -> Callable[..., Report]:
    """`others`: names of given options that have nothing to say here."""
    _, points = parse_sweep(sweep, SWEPT)
    lengths = sorted({int(point) for point in points})
    if len(lengths) < FEWEST or lengths[0] < FEWEST:
        raise UsageError(f"`sweep={sweep!r}`: it needs at least two lengths, from 2 tokens on.")
    if others:
        given = list(others)
        raise UsageError(
            f"{said_of(given, 'goes', 'go')} with one length: leave {it_or_them(given)} out, or drop `sweep`.",
            idle=given,
            because=["sweep"],
        )
    refuse_without_a_model(source, [] if source.is_model else ["sweep"])
    metrics = chosen(names)
    refuse_unmeasured(conditions, definitions(metrics))
    options, wanted = model.to_load(seed), inputs.to_read(None, seed)
    before_the_work()
    checkpoint = load(source, options)
    most = longest(checkpoint.model)
    if most is not None and lengths[-1] > most:
        raise UsageError(
            f"`sweep={sweep!r}` goes to {lengths[-1]} tokens, {type(checkpoint.model).__name__} has positions for {most}: end it there."
        )
    texts = {length: of_length(checkpoint, wanted, length) for length in lengths}
    plan = HeadPlan(metrics, heads.chosen_layers(), heads.keeps(), seed=seed)
    subject = proved_softmax(checkpoint.body)
    refuse_absent(heads_there(subject), plan)
    shorter = "let `sweep` end at a shorter one"
    require_room_to_run(subject.body, lengths[-1], STRIP_MEMORY, advice=shorter)
    return partial(length_sweep, checkpoint, subject, texts, plan)


def chosen(names: Sequence[str]) -> Metrics:
    """Metrics of heads that any text shows."""
    metrics = replace(choose(names or DEFAULT), states=(), roles=False)
    if not metrics.heads or metrics.on_repeats:
        wrong = metrics.on_repeats[0] if metrics.on_repeats else names[0]
        raise UsageError(
            f"`metric={wrong!r}` is no number of a head on a text of any length: leave it out, or drop `sweep`.",
            idle=["metric"],
            because=["sweep"],
        )
    return metrics


def of_length(checkpoint: Checkpoint, wanted: WantedInput, length: int) -> list[ModelInput]:
    """The texts cut to a length, none of them shorter; random tokens where no text is given."""
    given = wanted.texts or wanted.text_file is not None or wanted.token_ids
    cut = replace(wanted, tokens=length, random_tokens=None if given else length)
    texts = inputs_of(checkpoint, cut)
    for text in texts:
        if text.tokens != length:
            raise UsageError(
                f"{text.name} has {counted(text.tokens, 'token')}, fewer than the {length} of `sweep`: end it there, or give no text "
                "for random tokens.",
                rivals=["sweep", "text", "text_file", "token_ids"],
            )
    return texts
