"""`attn attribute`: which input tokens a token's state after the last block comes from."""

from collections.abc import Sequence

from attncli.analysis import Progress, no_progress
from attncli.analysis.paths.path_subject import PathSubject, plain_pass
from attncli.analysis.texts import counted, over_texts
from attncli.commands.attribute.relevance import RelevanceAsked, relevance
from attncli.commands.attribute.report import (
    METRICS,
    RELEVANCES,
    Attributed,
    ChosenToken,
    headline,
    marked,
    relevance_in_words,
    relevance_rows,
    token_rows,
    views,
    whole_rows,
)
from attncli.commands.attribute.token_choices import POSITION, position_of
from attncli.errors import Imprecise, UsageError
from attncli.models.inputs.texts import ModelInput
from attncli.models.loading.precision import own_precision
from attncli.records import Finding, Report
from attncli.tensor_subclasses.path_streams.token_contributions import Origin, run_to_origins


def attribution(
    subject: PathSubject,
    texts: Sequence[ModelInput],
    token: str,
    top: int | None = None,
    progress: Progress = no_progress,
    asked: RelevanceAsked | None = None,
) -> Report:
    """Of one stack, over texts of one length; `top`: how many tokens the table lists; `asked`: relevance beside it."""
    refuse_different_places(token, texts)

    def work(place: int, text: ModelInput) -> tuple[Attributed, bool]:
        return subject.read(text, lambda model, given: attributed(model, given, token, asked))

    identity = subject.checkpoint.identity
    read = over_texts(
        subject.body, texts, counted(work, texts, progress), identity, "attribution", (Attributed,)
    )
    found = [one for one, _ in read]
    chosen = chosen_token(found[0], texts, on_decoder(subject))
    source = texts[0].labels if len(texts) == 1 else ()
    rows = (
        *marked(token_rows(chosen, found), top),
        *relevance_rows(chosen, found, source),
        *whole_rows(chosen, found),
    )
    told = [Finding(chosen.name, headline(chosen, rows, len(subject.stack.calls)))]
    if asked is not None:
        told.append(Finding("relevance", relevance_in_words(chosen, found, rows)))
    return Report(
        study="inspect-model",
        headline=" ".join(each.text for each in told),
        rows=rows,
        metrics=METRICS if asked is None else {**METRICS, **RELEVANCES},
        views=tuple(views(chosen, rows, len(texts))),
        findings=tuple(told),
        **subject.about(texts, [again for _, again in read]),
    )


def refuse_different_places(token: str, texts: Sequence[ModelInput]) -> None:
    """Means over texts need the same place in all of them."""
    if len({text.tokens for text in texts}) > 1:
        raise UsageError(
            "`attribute` asks about one place in texts of one length: give one text, or cut all with `tokens`."
        )
    if len(texts) > 1 and not POSITION.fullmatch(token):
        raise UsageError(f"`token={token!r}` with several texts: give a position, such as -1.")


def on_decoder(subject: PathSubject) -> bool:
    """Whether the tokens are those that a decoder reads, beside an encoder's."""
    two = subject.checkpoint.body.config.is_encoder_decoder
    return bool(two) and subject.stack is not subject.stacks[0]


def attributed(
    subject: PathSubject, text: ModelInput, token: str, asked: RelevanceAsked | None = None
) -> Attributed:
    """Of one text, held against the model's own output."""
    with own_precision(subject.body):
        plain, _ = plain_pass(subject.body, subject, text)
        labels = text.decoder_labels if on_decoder(subject) else text.labels
        position = position_of(token, labels, len(plain))
        origin = run_to_origins(subject.body, subject.stack, text.kwargs, position)
    state, constants = plain[position].double(), origin.of_constants.double()
    square = float(state.square().sum())
    of_constants = float(constants @ origin.state.double()) / square
    missed = float((state - origin.of_inputs.double() - constants).square().sum() / square) ** 0.5
    error = max(missed, abs(1.0 - float(origin.shares.double().sum()) - of_constants))
    if not error <= subject.tolerance:
        raise Imprecise(
            f"{text.name}: what comes from the tokens and from constants misses the state by {error:.1g}, above "
            f"{subject.tolerance:.1g}: it cannot be trusted and is not reported{subject.advice}."
        )
    numbers = as_numbers(origin, position, of_constants, error)
    if asked is None:
        return numbers
    with own_precision(subject.body):
        found = relevance(subject, text, position, asked)
    name, score = found.explained
    return numbers._replace(
        relevance=tuple(found.own), of_source=tuple(found.source), score=score, explained=name
    )


def as_numbers(origin: Origin, position: int, of_constants: float, error: float) -> Attributed:
    return Attributed(
        position,
        origin.shares.double().tolist(),
        origin.rolled.attention.tolist(),
        origin.rolled.even.tolist(),
        of_constants,
        error,
    )


def chosen_token(
    found: Attributed, texts: Sequence[ModelInput], decoder: bool = False
) -> ChosenToken:
    """With the tokens that it sees, directly or through others; they have names where there is one text."""
    labels = (texts[0].decoder_labels if decoder else texts[0].labels) if len(texts) == 1 else ()
    named = len(labels) == len(found.shares)
    seen = [place for place, even in enumerate(found.even) if even > 0.0]
    return ChosenToken(found.position, {place: labels[place] if named else "" for place in seen})
