"""How much of a trained model's output passes through each head, and past each layer's attention."""

from collections.abc import Mapping, Sequence

from attncli.analysis import Progress, no_progress
from attncli.analysis.paths.path_subject import PathSubject, plain_pass
from attncli.analysis.statistics import averaged, summary_row
from attncli.analysis.texts import counted, over_texts
from attncli.commands.paths.synthetic.path_heads import (
    OUTPUT,
    Door,
    door_rows,
    door_views,
    doors_report,
    largest,
)
from attncli.models.inputs.texts import ModelInput
from attncli.models.loading.precision import own_precision
from attncli.records import Definition, Finding, Report
from attncli.tensor_subclasses.path_streams.backward_pass import run_by_head

STEP = "attention"
"""The variant of the rows."""

LOST = "not finite"

PAST = "past"
"""Where a path does not go through a layer's attention: its skip, and biases that stand after it."""

OWN_METRICS: Mapping[str, Definition] = {
    OUTPUT: Definition(
        "1",
        "⟨C, Y⟩ / ‖Y‖_F², C the sum of all paths through this head, or past the layer's attention; adds up to 1 in a layer.",
    ),
    "completeness_error": Definition(
        "1", "‖Y - Y'‖_F / ‖Y‖_F, Y' the output of the frozen network that the paths are those of."
    ),
}


def model_heads(
    subject: PathSubject,
    texts: Sequence[ModelInput],
    progress: Progress = no_progress,
) -> Report:
    """The share of every head of a stack, over texts."""

    def work(place: int, text: ModelInput) -> tuple[tuple[dict[Door, float], float], bool]:
        return subject.read(text, shares_of)

    identity = subject.checkpoint.identity
    read = over_texts(
        subject.body, texts, counted(work, texts, progress), identity, "heads", (Door,)
    )
    found, errors = [shares for (shares, _), _ in read], [error for (_, error), _ in read]
    rows = (
        *door_rows(OUTPUT, found, STEP, LOST),
        summary_row("completeness_error", "1", errors, LOST, variant=STEP),
    )
    over = averaged(len(texts), "texts")
    views = door_views({OUTPUT: f"{OUTPUT}{over}"}, "Is the frozen network the model?")
    finding = Finding("heads", largest(rows, PAST))
    about = subject.about(texts, [again for _, again in read])
    return doors_report(rows, OWN_METRICS, views, finding, about)


def shares_of(subject: PathSubject, text: ModelInput) -> tuple[dict[Door, float], float]:
    """Every door's share, and how far the frozen network is from the model itself."""
    with own_precision(subject.body):
        state, _ = plain_pass(subject.body, subject, text)
        output, by_layer = run_by_head(subject.body, subject.stack, text.kwargs)
    error = subject.miss(output, state, text)
    layers = [call.layer for call in subject.stack.calls if call.attention]
    shares: dict[Door, float] = {}
    for layer, heads in zip(layers, by_layer, strict=True):
        for head, share in enumerate(heads.tolist()):
            shares[Door(layer, f"head {head}", head)] = share
        shares[Door(layer, PAST)] = 1.0 - float(heads.double().sum())
    return shares, error
