"""`attn paths` on trained models: the last block's output by path length, and what short paths predict."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attncli.checkpoints.inputs.texts import ModelInput
from attncli.checkpoints.loading.load import Checkpoint
from attncli.checkpoints.paths.run import Found, run_by_length
from attncli.checkpoints.structure.blocks import Stack, watching_states
from attncli.errors import InputError
from attncli.maths.path_counts import counts_of_choices
from attncli.maths.split import Split
from attncli.records import Definition, Finding, Report, Row, View
from attncli.studies import Progress, no_progress
from attncli.studies.model_runs import own_precision
from attncli.studies.path_measures import Measured, measured
from attncli.studies.path_terms import Decomposition
from attncli.studies.path_words import definitions, headline_of
from attncli.studies.paths import (
    COLUMNS,
    across_variants,
    completeness,
    count_rows,
    finding_of,
    length_rows,
)
from attncli.studies.statistics import summary_row

TOLERANCES: Mapping[torch.dtype, float] = {torch.float64: 1e-10, torch.float32: 1e-4}
"""The largest completeness error that is still rounding; half precision would drown the terms."""

STEPS = ("attention", "mlp")
"""What may be counted as a step of a path."""

NAMES = {"attention": "attention", "mlp": "MLP"}

LOSSES: Mapping[str, Definition] = {
    "loss": Definition(
        "nats",
        "Mean loss of the next token when only paths up to this length are kept; the final norm and the head run on what is left.",
    ),
    "full_loss": Definition("nats", "Mean loss of the next token of the whole model."),
}


@dataclass(frozen=True)
class Plan:
    """What is wanted of every text."""

    stacks: tuple[Stack, ...]
    """All of the model's; the first is decomposed."""
    steps: tuple[str, ...]
    metrics: Sequence[str]
    loss: bool


class Text(NamedTuple):
    """What one text has shown, by the kind of step."""

    measured: dict[str, Measured]
    counts: dict[str, dict[int, int]]
    losses: dict[str, list[float]]
    """Per kind of step, the loss when only lengths up to each are kept."""
    full_loss: float | None


def model_paths(
    checkpoint: Checkpoint,
    texts: Sequence[ModelInput],
    plan: Plan,
    progress: Progress = no_progress,
) -> Report:
    """One stack of a model, over texts."""
    found = []
    for done, text in enumerate(texts):
        found.append(read(checkpoint, text, plan))
        progress(done + 1, len(texts), "texts")
    rows = [row for step in plan.steps for row in rows_of(found, step)]
    findings = tuple(finding_about(found, step) for step in plan.steps)
    stack = plan.stacks[0]
    others = [f"stack {other.name} is not decomposed, {stack.name} is" for other in plan.stacks[1:]]
    return Report(
        study="paths",
        headline=headline_of(findings),
        rows=(*rows, *full_loss_rows(found)),
        metrics={**definitions(plan.metrics), **LOSSES},
        source={**checkpoint.identity, "stack": stack.name, "blocks": len(stack.calls)},
        input={"texts": [{"name": text.name, "tokens": text.tokens} for text in texts]},
        views=tuple(views(plan, len(texts))),
        findings=findings,
        warnings=(*checkpoint.warnings, *others),
    )


def read(checkpoint: Checkpoint, text: ModelInput, plan: Plan) -> Text:
    """The plain forward pass, and one by length for each kind of step."""
    model = checkpoint.model if plan.loss else checkpoint.body
    found = Text({}, {}, {}, None)
    with own_precision(checkpoint.body):
        state, output = plain_pass(model, checkpoint.body, text, plan.stacks)
        for step in plan.steps:
            parts, after = run_by_length(
                model,
                plan.stacks[0],
                text.kwargs,
                step == "attention",
                up_to if plan.loss else None,
            )
            where = f"{text.name}, {step} steps"
            terms = decomposition(parts, state)
            advice = (
                ""
                if model.dtype == torch.float64
                else "; large terms cancel here: use --dtype float64"
            )
            found.measured[step] = measured(
                terms, plan.metrics, where, TOLERANCES[model.dtype], advice
            )
            found.counts[step] = counts_of_choices(choices(parts, plan.stacks[0], step))
            if plan.loss:
                found.losses[step] = losses_of(after.logits, text)
    return found._replace(full_loss=losses_of(output.logits, text)[0] if plan.loss else None)


def plain_pass(
    model: nn.Module, body: nn.Module, text: ModelInput, stacks: tuple[Stack, ...]
) -> tuple[Tensor, Any]:
    """The last block's output of the model as it is, against which the terms are held, and what the model returns."""
    last: list[Tensor] = []

    def keep_last(name: str, index: int, state: Tensor) -> None:
        if (name, index) == (stacks[0].name, len(stacks[0].calls)):
            last.append(state[0])

    with torch.no_grad(), watching_states(body, stacks, keep_last):
        output = model(**text.kwargs)
    if not bool(torch.isfinite(last[0]).all()):
        raise InputError(f"{text.name}: the last state is not finite.")
    return last[0], output


def choices(parts: Found, stack: Stack, step: str) -> Sequence[int]:
    """What a path can go through in each layer beside the skip."""
    return parts.heads if step == "attention" else [1] * len(stack.calls)


def decomposition(parts: Found, output: Tensor) -> Decomposition:
    """As the states that are measured."""
    return Decomposition(
        split_of(output), {length: split_of(term) for length, term in enumerate(parts.terms)}
    )


def split_of(state: Tensor) -> Split:
    return Split.of(state.to("cpu", torch.float64).numpy())


def up_to(terms: Tensor) -> Tensor:
    """The stream when only lengths up to each are kept: what the rest of the model is given, as a batch."""
    return terms.cumsum(dim=0)


def losses_of(logits: Tensor, text: ModelInput) -> list[float]:
    """The mean loss of the next token, in nats, of every text of the batch."""
    wanted = text.kwargs["input_ids"][0, 1:]
    return [float(F.cross_entropy(one[:-1].double(), wanted)) for one in logits]


def rows_of(found: Sequence[Text], step: str) -> Iterator[Row]:
    """Counts, terms, completeness and losses of one kind of step."""
    of_step = [one.measured[step] for one in found]
    yield from count_rows(found[0].counts[step], step)
    yield from length_rows(of_step, step)
    yield from completeness(of_step, step)
    for length, losses in enumerate(zip(*(one.losses.get(step, ()) for one in found), strict=True)):
        yield summary_row("loss", "nats", losses, "not finite", {"length": length}, variant=step)


def full_loss_rows(found: Sequence[Text]) -> Iterator[Row]:
    losses = [one.full_loss for one in found if one.full_loss is not None]
    if losses:
        yield summary_row("full_loss", "nats", losses, "not finite")


def finding_about(found: Sequence[Text], step: str) -> Finding:
    return finding_of(step, [one.measured[step] for one in found], found[0].counts[step])


def views(plan: Plan, texts: int) -> Iterator[View]:
    over = f", mean ± standard deviation over {texts} texts" if texts > 1 else ""
    columns = (*COLUMNS, *(("loss",) if plan.loss else ()), *plan.metrics)
    for step in plan.steps:
        title = f"Terms by path length, a step is an {NAMES[step]}{over}"
        yield View(title, "length", columns, where={"variant": step})
    yield from across_variants()
