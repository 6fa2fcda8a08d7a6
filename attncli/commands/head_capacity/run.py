"""`attn approximate --heads MODEL`: from the options to a survey of all trained heads."""

from dataclasses import replace
from functools import cache
from typing import Any

from attncli.analysis.heads.prepare import proved_softmax
from attncli.analysis.network_sources import named
from attncli.analysis.prepare import refuse_at_once
from attncli.commands.head_capacity.head_survey import SurveyPlan, head_survey
from attncli.declare.dry_run import before_the_work
from attncli.errors import AttnError, InputError, LimitError, UsageError, said_of
from attncli.fits import FitRequest
from attncli.head_weights.head import Head, Reader, reader, with_plain_logits
from attncli.models.inputs.requested_input import WantedInput
from attncli.models.inputs.texts import ModelInput, ahead, inputs_of
from attncli.models.loading.body import body_of
from attncli.models.loading.load import Ahead, Checkpoint, load
from attncli.models.loading.load_options import LoadOptions
from attncli.models.loading.memory_estimate import require_room_to_run
from attncli.models.loading.random_init import random_twin
from attncli.options.model import CheckpointOptions, InputOptions
from attncli.options.patterns import DrawOptions, PatternOptions, SearchOptions
from attncli.python.question import How
from attncli.records import Report
from attncli.sources import Source

LONGEST = 128
"""Tokens that are read where no length is asked for: the searches cost the square of it."""


def surveyed(
    model: str,
    patterns: PatternOptions,
    inputs: InputOptions,
    search: SearchOptions,
    request: FitRequest,
    run: DrawOptions,
    files: CheckpointOptions,
    how: How,
) -> Report:
    """Every head of a model on texts of one length."""
    refuse_patterns(patterns, search)
    source = named(model, "approximate(heads=...)")
    seeds = run.all_seeds()
    longest = patterns.length or LONGEST
    refuse_at_once(source, files, inputs, longest, seeds[0])
    wanted = two(inputs.to_read(longest, seeds[0]))
    before_the_work()
    checkpoint = in_float64(source, files.to_load(seeds[0]), ahead(wanted))
    texts = of_one_length(checkpoint, wanted)
    require_room_to_run(checkpoint.body, texts[0].tokens, 0, advice="cut it with `length`")
    plan = SurveyPlan(request, search.methods, search.widest, seeds)

    fetching = files.to_fetch()

    @cache
    def opened() -> Reader | AttnError:
        """Once for all heads, whether it can be or not."""
        try:
            return reader(*with_plain_logits(model, fetching), fetching)
        except AttnError as error:
            return error

    def read(layer: int, head: int) -> Head:
        if checkpoint.folder is None:
            raise InputError(
                "single heads are read from a saved model's files, and this one has none"
            )
        found = opened()
        if isinstance(found, AttnError):
            raise found
        return found(layer, head)

    subject = proved_softmax(checkpoint.body)
    twin = proved_softmax(body_of(random_twin(checkpoint.model, seeds[0])))
    return head_survey(checkpoint, subject, twin, texts, read, plan, how.progress)


def refuse_patterns(patterns: PatternOptions, search: SearchOptions) -> None:
    """The heads' own maps and random patterns are what is asked about."""
    given: dict[str, Any] = {
        "pattern": patterns.pattern,
        "causal": patterns.causal,
        "width": search.width,
        "find_width": search.find_width,
    }
    idle = [name for name, value in given.items() if value]
    if idle:
        raise UsageError(
            f"{said_of(idle, 'goes', 'go')} with patterns: `heads` asks about a model's own heads.",
            idle=idle,
            because=["heads"],
        )


def two(wanted: WantedInput) -> WantedInput:
    """Two texts where nothing else is said, since input dependence takes two."""
    asked = wanted.texts or wanted.text_file is not None or wanted.token_ids
    return wanted if asked else replace(wanted, own_texts=2, samples=max(2, wanted.samples))


def in_float64(source: Source, options: LoadOptions, ahead: Ahead) -> Checkpoint:
    """So that weights are positive where a key is visible; in the file's own dtype where that does not fit."""
    try:
        return load(source, replace(options, dtype="float64"), ahead)
    except LimitError:
        return load(source, options, ahead)


def of_one_length(checkpoint: Checkpoint, wanted: WantedInput) -> list[ModelInput]:
    """All as long as the shortest, their special tokens kept."""
    texts = inputs_of(checkpoint, wanted)
    shortest = min(text.tokens for text in texts)
    if shortest < 2:
        raise InputError("the shortest input has one token: a map needs two.")
    if all(text.tokens == shortest for text in texts):
        return texts
    if wanted.text_file == "-":
        raise UsageError(
            f"`text_file` - holds texts of other lengths, and stdin is read once: give `length={shortest!r}`, or a file.",
            because=["heads"],
        )
    return inputs_of(checkpoint, replace(wanted, tokens=shortest))
