"""`attn paths` on trained models: the last block's output by path length, and what short paths predict."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from attncli.analysis import Progress, no_progress
from attncli.analysis.paths.count_rows import count_rows
from attncli.analysis.paths.path_metrics import definitions, headline_of
from attncli.analysis.paths.path_subject import PathSubject, plain_pass
from attncli.analysis.statistics import averaged, summary_row
from attncli.analysis.texts import counted, over_texts
from attncli.capture.stacks.blocks import Stack
from attncli.commands.paths.synthetic.network_paths import (
    COLUMNS,
    across_variants,
    completeness,
    finding_of,
    length_rows,
)
from attncli.commands.paths.synthetic.path_measures import MeasuredTerms, measured
from attncli.commands.paths.synthetic.path_terms import Decomposition
from attncli.maths.path_counts import counts_of_choices
from attncli.maths.residuals.split import Split
from attncli.models.inputs.texts import ModelInput
from attncli.models.loading.precision import own_precision
from attncli.records import Definition, Finding, Report, Row, View
from attncli.tensor_subclasses.path_streams.path_run import FoundPaths, run_by_length

NAMES = {"attention": "attention", "mlp": "MLP"}

LOSSES: Mapping[str, Definition] = {
    "loss": Definition(
        "nats",
        "Mean loss of the next token when only paths up to this length are kept; the final norm and the head run on what is left.",
    ),
    "full_loss": Definition("nats", "Mean loss of the next token of the whole model."),
}


@dataclass(frozen=True)
class PathPlan:
    """What is wanted of every text."""

    steps: tuple[str, ...]
    metrics: Sequence[str]
    loss: bool


class Text(NamedTuple):
    """What one text has shown, by the kind of step."""

    measured: dict[str, MeasuredTerms]
    counts: dict[str, dict[int, int]]
    losses: dict[str, list[float]]
    """Per kind of step, the loss when only lengths up to each are kept."""
    full_loss: float | None


def model_paths(
    subject: PathSubject,
    texts: Sequence[ModelInput],
    plan: PathPlan,
    progress: Progress = no_progress,
) -> Report:
    """One stack of a model, over texts."""

    def work(place: int, text: ModelInput) -> tuple[Text, bool]:
        return subject.read(text, lambda model, given: read(model, given, plan))

    made_of = (Text, MeasuredTerms)
    identity = subject.checkpoint.identity
    done = over_texts(
        subject.body, texts, counted(work, texts, progress), identity, "paths", made_of
    )
    found = [text for text, _ in done]
    rows = [row for step in plan.steps for row in rows_of(found, step)]
    findings = tuple(finding_about(found, step) for step in plan.steps)
    return Report(
        study="paths",
        headline=headline_of(findings),
        rows=(*rows, *full_loss_rows(found)),
        metrics={**definitions(plan.metrics), **LOSSES},
        views=tuple(views(plan, len(texts))),
        findings=findings,
        **subject.about(texts, [again for _, again in done]),
    )


def read(subject: PathSubject, text: ModelInput, plan: PathPlan) -> Text:
    """The plain forward pass, and one by length for each kind of step."""
    model = subject.checkpoint.model if plan.loss else subject.body
    found = Text({}, {}, {}, None)
    with own_precision(subject.body):
        state, output = plain_pass(model, subject, text)
        for step in plan.steps:
            parts, after = run_by_length(
                model,
                subject.stack,
                text.kwargs,
                step == "attention",
                up_to if plan.loss else None,
            )
            where = f"{text.name}, {step} steps"
            terms = decomposition(parts, state)
            found.measured[step] = measured(
                terms, plan.metrics, where, subject.tolerance, subject.advice
            )
            found.counts[step] = counts_of_choices(choices(parts, subject.stack, step))
            if plan.loss:
                found.losses[step] = losses_of(after.logits, text)
    return found._replace(full_loss=losses_of(output.logits, text)[0] if plan.loss else None)


def choices(parts: FoundPaths, stack: Stack, step: str) -> Sequence[int]:
    """What a path can go through in each layer beside the skip."""
    return parts.heads if step == "attention" else [1] * len(stack.calls)


def decomposition(parts: FoundPaths, output: Tensor) -> Decomposition:
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


def views(plan: PathPlan, texts: int) -> Iterator[View]:
    over = averaged(texts, "texts")
    columns = (*COLUMNS, *(("loss",) if plan.loss else ()), *plan.metrics)
    for step in plan.steps:
        title = f"Terms by path length, a step is an {NAMES[step]}{over}"
        yield View(title, "length", columns, where={"variant": step})
    yield from across_variants()
