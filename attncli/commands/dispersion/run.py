"""From the options of `attn dispersion` to its report."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from attncli.analysis.heads.metric_selection import Metrics, choose
from attncli.analysis.heads.model_heads import HeadPlan
from attncli.analysis.heads.prepare import heads_there, proved_softmax, refuse_absent
from attncli.capture import STRIP_MEMORY
from attncli.commands.dispersion.report import DEFAULT, definitions, length_sweep
from attncli.declare.dry_run import before_the_work
from attncli.errors import UsageError, counted
from attncli.gates import Condition, refuse_unmeasured
from attncli.models.inputs.requested_input import WantedInput
from attncli.models.inputs.texts import ModelInput, inputs_of
from attncli.models.inputs.token_ranges import longest
from attncli.models.loading.load import Checkpoint, load
from attncli.models.loading.memory_estimate import require_room_to_run
from attncli.options.heads import HeadChoice
from attncli.options.model import InputOptions, ModelOptions
from attncli.options.size_ranges import parse_range
from attncli.records import Report
from attncli.sources import Source

FEWEST = 2
"""Lengths that a slope is told from."""


def length_study(
    source: Source,
    lengths: str,
    names: Sequence[str],
    heads: HeadChoice,
    conditions: Sequence[Condition],
    model: ModelOptions,
    inputs: InputOptions,
    seed: int,
) -> Callable[..., Report]:
    """Everything is loaded and verified before the first length is measured."""
    points = lengths_of(lengths)
    metrics = chosen(names)
    refuse_unmeasured(conditions, definitions(metrics))
    options, wanted = model.to_load(seed), inputs.to_read(None, seed)
    before_the_work()
    checkpoint = load(source, options)
    most = longest(checkpoint.model)
    if most is not None and points[-1] > most:
        raise UsageError(
            f"`lengths={lengths!r}` goes to {points[-1]} tokens, {type(checkpoint.model).__name__} has positions for {most}: end it there."
        )
    texts = {length: of_length(checkpoint, wanted, length) for length in points}
    plan = HeadPlan(metrics, heads.chosen_layers(), heads.keeps(), seed=seed)
    subject = proved_softmax(checkpoint.body)
    refuse_absent(heads_there(subject), plan)
    shorter = "let `lengths` end at a shorter one"
    require_room_to_run(subject.body, points[-1], STRIP_MEMORY, advice=shorter)
    return partial(length_sweep, checkpoint, subject, texts, plan)


def lengths_of(text: str) -> list[int]:
    """At least two lengths, the shortest first."""
    found = sorted({int(n) for n in parse_range(f"`lengths={text!r}`", "tokens", text, int)})
    if len(found) < FEWEST or found[0] < FEWEST:
        raise UsageError(f"`lengths={text!r}`: it needs at least two lengths, from 2 tokens on.")
    return found


def chosen(names: Sequence[str]) -> Metrics:
    """Metrics of heads that any text shows."""
    metrics = replace(choose(names or DEFAULT), states=(), roles=False)
    if not metrics.heads or metrics.on_repeats:
        wrong = metrics.on_repeats[0] if metrics.on_repeats else names[0]
        raise UsageError(
            f"`metric={wrong!r}` is no number of a head on a text of any length: leave it out.",
            about=["metric"],
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
                f"{text.name} has {counted(text.tokens, 'token')}, fewer than the {length} of `lengths`: end it there, or give no text "
                "for random tokens.",
                about=["lengths", "text", "text_file", "token_ids"],
            )
    return texts
