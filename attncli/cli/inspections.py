"""From MODEL and the options to a study of its heads."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, cast

from attncli.checkpoints.blocks import find_stacks
from attncli.checkpoints.dummy_inputs import example_inputs
from attncli.checkpoints.load import load
from attncli.checkpoints.room_needed import require_room_to_run
from attncli.checkpoints.streaming import STRIP_MEMORY, prove
from attncli.checkpoints.texts import inputs_of
from attncli.checkpoints.twins import random_twin
from attncli.cli.head_options import HeadOptions
from attncli.cli.model_options import InputOptions, ModelOptions
from attncli.cli.models import PROBE_TOKENS
from attncli.errors import UsageError
from attncli.studies.head_metrics import choose
from attncli.studies.inspect_model import Plan, Subject, inspect_model
from attncli.studies.model_runs import own_precision

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from attncli.records import Report


def model_study(
    source: str,
    metric: Sequence[str],
    with_random_init: bool,
    with_shuffled_text: bool,
    tokens: int | None,
    seed: int,
    heads: HeadOptions,
    model: ModelOptions,
    inputs: InputOptions,
) -> "Callable[..., Report]":
    """Everything is chosen, loaded and proved before the first text is read."""
    metrics = choose(metric)
    layers, keeps = heads.chosen_layers(), heads.keeps()
    ranking = heads.ranking(metrics.heads)
    plan = Plan(metrics, layers, keeps, ranking, with_shuffled_text, seed)
    checkpoint = load(source, model.to_load(seed))
    texts = inputs_of(checkpoint, inputs.to_read(tokens, seed))
    subject = proved(checkpoint.body)
    refuse_absent(subject, layers)
    for text in texts:
        require_room_to_run(subject.body, text.tokens, STRIP_MEMORY)
    twin = None
    if with_random_init:
        twin = proved(cast("PreTrainedModel", random_twin(checkpoint.model, seed).base_model))
    return partial(inspect_model, checkpoint, subject, twin, texts, plan)


def proved(body: "PreTrainedModel") -> Subject:
    """The model's blocks and attention, the capture proved on a short input."""
    short = example_inputs(body, PROBE_TOKENS)
    with own_precision(body):
        proof = prove(body, short)
        stacks = find_stacks(body, short)
    return Subject(body, stacks, proof.sites)


def refuse_absent(subject: Subject, layers: frozenset[int] | None) -> None:
    """Layers that are asked for must attend."""
    present = {site.layer for site in subject.sites}
    missing = sorted((layers or frozenset()) - present)
    if missing:
        there = ", ".join(map(str, sorted(present)))
        raise UsageError(f"layer {missing[0]} has no attention: there is some in {there}.")
