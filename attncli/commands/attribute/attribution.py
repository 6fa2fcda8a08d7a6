"""`attn attribute`: which input tokens a token's state after the last block comes from."""

from collections.abc import Sequence
from functools import partial

from attncli.analysis.paths.decomposed_model import DecomposableModel, run_unmodified_model
from attncli.capture.reruns.seed_and_precision import move_to_float64_device
from attncli.commands.attribute.relevance import RelevanceRequest, compute_relevance
from attncli.commands.attribute.report import (
    METRICS,
    RELEVANCES,
    AttributedText,
    ChosenToken,
    build_attribution_completeness_rows,
    build_attribution_tables,
    build_relevance_rows,
    build_token_attribution_rows,
    describe_relevance,
    format_top_attributed_tokens_headline,
    mark_rows_of_top_attributed_tokens,
)
from attncli.commands.attribute.token_position_option import POSITION, resolve_token_position
from attncli.errors import InsufficientPrecision, UsageError
from attncli.models.inputs.model_input import ModelInput
from attncli.models.precision import run_in_model_precision
from attncli.progress import Progress, ignore_progress
from attncli.records import Finding, Report
from attncli.tensor_subclasses.path_streams.token_contributions import (
    TokenContributions,
    compute_token_contributions,
)


def measure_attribution(
    subject: DecomposableModel,
    texts: Sequence[ModelInput],
    token: str,
    top: int | None = None,
    progress: Progress = ignore_progress,
    request: RelevanceRequest | None = None,
) -> Report:
    """Attribute the state of one stack, over texts of one length. `top`: rows of the table;
    `request`: relevance as well."""
    require_same_position_in_all_texts(token, texts)
    work = partial(attribute_state_to_tokens, token=token, request=request)
    found, about = subject.apply_to_all_texts(
        texts, work, "attribution", (AttributedText,), progress
    )
    chosen = choose_attributed_token(found[0], texts, is_attributed_to_decoder_tokens(subject))
    source = texts[0].labels if len(texts) == 1 else ()
    rows = (
        *mark_rows_of_top_attributed_tokens(build_token_attribution_rows(chosen, found), top),
        *build_relevance_rows(chosen, found, source),
        *build_attribution_completeness_rows(chosen, found),
    )
    findings = [
        Finding(
            chosen.name_of_chosen_token,
            format_top_attributed_tokens_headline(chosen, rows, len(subject.stack.calls)),
        )
    ]
    if request is not None:
        findings.append(Finding("relevance", describe_relevance(chosen, found, rows)))
    return Report(
        study="inspect-model",
        headline=" ".join(each.text for each in findings),
        rows=rows,
        metrics=METRICS if request is None else {**METRICS, **RELEVANCES},
        views=tuple(build_attribution_tables(chosen, rows, len(texts))),
        findings=tuple(findings),
        **about,
    )


def require_same_position_in_all_texts(token: str, texts: Sequence[ModelInput]) -> None:
    """Refuse texts in which the token has different positions: a mean needs the same one in all."""
    if len({text.tokens for text in texts}) > 1:
        raise UsageError(
            "`attribute` asks about one place in texts of one length: give one text, or cut all with `tokens`."
        )
    if len(texts) > 1 and not POSITION.fullmatch(token):
        raise UsageError(f"`token={token!r}` with several texts: give a position, such as -1.")


def is_attributed_to_decoder_tokens(subject: DecomposableModel) -> bool:
    """Whether the tokens are the decoder's own input, in a model that also has an encoder."""
    two = subject.checkpoint.model_without_head.config.is_encoder_decoder
    return bool(two) and subject.stack is not subject.stacks[0]


def attribute_state_to_tokens(
    subject: DecomposableModel,
    text: ModelInput,
    token: str,
    request: RelevanceRequest | None = None,
) -> AttributedText:
    """Attribute the state on one text, and check the sum of parts against the model's output."""
    with run_in_model_precision(subject.model_without_head):
        plain, _ = run_unmodified_model(subject.model_without_head, subject, text)
        labels = text.decoder_labels if is_attributed_to_decoder_tokens(subject) else text.labels
        position = resolve_token_position(token, labels, len(plain))
        origin = compute_token_contributions(
            subject.model_without_head, subject.stack, text.kwargs, position
        )
    origin = move_to_float64_device(origin)
    state = move_to_float64_device(plain)[position].double()
    constants = origin.of_constants.double()
    square = float(state.square().sum())
    of_constants = float(constants @ origin.state.double()) / square
    missed = float((state - origin.of_inputs.double() - constants).square().sum() / square) ** 0.5
    error = max(missed, abs(1.0 - float(origin.shares.double().sum()) - of_constants))
    if not error <= subject.completeness_tolerance:
        raise InsufficientPrecision(
            f"{text.name}: what comes from the tokens and from constants misses the state by {error:.1g}, above "
            f"{subject.completeness_tolerance:.1g}: it cannot be trusted and is not reported{subject.completeness_advice}."
        )
    numbers = token_contributions_to_lists(origin, position, of_constants, error)
    if request is None:
        return numbers
    with run_in_model_precision(subject.model_without_head):
        found = compute_relevance(subject, text, position, request)
    name, score = found.score
    return numbers._replace(
        relevance=tuple(found.own), of_source=tuple(found.source), score=score, score_name=name
    )


def token_contributions_to_lists(
    origin: TokenContributions, position: int, of_constants: float, error: float
) -> AttributedText:
    return AttributedText(
        position,
        origin.shares.double().tolist(),
        origin.rollout.attention.tolist(),
        origin.rollout.even.tolist(),
        of_constants,
        error,
    )


def choose_attributed_token(
    text: AttributedText, texts: Sequence[ModelInput], decoder: bool = False
) -> ChosenToken:
    """Choose the token and the tokens that it sees; they have names where there is one text."""
    labels = (texts[0].decoder_labels if decoder else texts[0].labels) if len(texts) == 1 else ()
    named = len(labels) == len(text.shares)
    seen = [place for place, even in enumerate(text.even) if even > 0.0]
    return ChosenToken(text.position, {place: labels[place] if named else "" for place in seen})
