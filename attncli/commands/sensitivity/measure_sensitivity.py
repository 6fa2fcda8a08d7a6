"""`attn sensitivity MODEL`: gradients of the last token's state by each token, and the sum over
paths.

Over-squashing (Barbero et al. 2024, "Transformers need glasses"): ∂y_n/∂x_i is bounded by a sum over paths of attention,
so a token that few paths leave is hardly heard; and y_n of a text and of the same text with its last token repeated come
so close with the length that a narrow type cannot tell them apart.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from torch import Tensor

from attncli.analysis.distributed_text_loop import apply_to_each_text, wrap_with_text_progress
from attncli.analysis.paths.decomposed_model import DecomposableModel, run_unmodified_model
from attncli.analysis.paths.jacobian_norm_sampling import (
    EstimateWithError,
    TokenEstimatesWithErrors,
    estimate_correlation,
    estimate_jacobian_norm_shares,
    estimate_jacobian_norms,
)
from attncli.capture import AttentionSite, Strip, capture_attention
from attncli.capture.reruns.seed_and_precision import move_to_float64_device
from attncli.capture.softmax_attention.attention_site_names import find_block_stack_of_attention
from attncli.commands.sensitivity.report import (
    METRICS,
    RepeatedToken,
    TextSensitivity,
    build_repeated_last_token_rows,
    build_sensitivity_tables,
    build_token_sensitivity_rows,
    format_sensitivity_headline,
)
from attncli.errors import InputError, UsageError
from attncli.models.inputs.model_input import WORDS, ModelInput
from attncli.models.inputs.vocabulary_and_positions import find_max_positions
from attncli.models.precision import run_in_model_precision
from attncli.progress import Progress, ignore_progress
from attncli.records import Finding, Report
from attncli.tensor_subclasses.stream_gradients import backpropagate_directions

SHORTEST = 4
"""Tokens of the shortest text whose last token is repeated."""
AFFORDED = 1e12
"""Multiplications and additions up to which all directions are followed back: some ten seconds on a few cores."""
FEW = 32
"""Directions of larger models and longer texts: fewer, and the intervals around their means are too narrow too often."""
LEAST_TOKENS = 16
"""Shorter texts take as long, for the weights must be read."""
SEEDS_APART = 1_000_003


@dataclass(frozen=True)
class SensitivityPlan:
    """How many directions of the output are followed back."""

    directions: int | None
    """Number of directions; None: all output features where that is cheap, else `FEW`."""
    seed: int
    width: int
    """Of the states."""
    weights: int
    """Of all blocks, for each time that they are run."""

    def choose_output_direction_count(self, tokens: int) -> int:
        cost = 2.0 * self.weights * max(tokens, LEAST_TOKENS) * self.width
        by_cost = self.width if cost <= AFFORDED else FEW
        return min(self.directions or by_cost, self.width)


def plan_sensitivity_measurement(
    subject: DecomposableModel, short: ModelInput, directions: int | None, seed: int
) -> SensitivityPlan:
    """A short input tells how wide the states are."""
    with run_in_model_precision(subject.model_without_head):
        width = run_unmodified_model(subject.model_without_head, subject, short)[0].shape[-1]
    blocks = [call.module for call in subject.stack.calls]
    weights = sum(each.numel() for block in blocks for each in block.parameters())
    return SensitivityPlan(directions, seed, width, weights)


def measure_sensitivity(
    subject: DecomposableModel,
    texts: Sequence[ModelInput],
    plan: SensitivityPlan,
    progress: Progress = ignore_progress,
) -> Report:
    """Measure one stack, over texts of one length."""
    if len({text.tokens for text in texts}) > 1:
        raise UsageError(
            "`sensitivity` compares places in texts of one length: give one text, or cut all with `tokens`."
        )

    def measure_text_in_model_precision(place: int, text: ModelInput) -> TextSensitivity:
        with run_in_model_precision(subject.model_without_head):
            return measure_token_sensitivity(subject, text, place, plan)

    made_of = (TextSensitivity, TokenEstimatesWithErrors, EstimateWithError, RepeatedToken)
    identity = subject.checkpoint.identity
    found = apply_to_each_text(
        subject.model_without_head,
        texts,
        wrap_with_text_progress(measure_text_in_model_precision, texts, progress),
        identity,
        "sensitivity",
        made_of,
    )
    words = texts[0].labels if len(texts) == 1 else ()
    rows = (*build_token_sensitivity_rows(found, words), *build_repeated_last_token_rows(found))
    about = f"token {texts[0].tokens - 1}"
    finding = Finding(
        about, format_sensitivity_headline(found, words, rows, len(subject.stack.calls))
    )
    return Report(
        study="paths",
        headline=finding.text,
        rows=rows,
        metrics=METRICS,
        seeds=(plan.seed,),
        views=tuple(build_sensitivity_tables(rows, len(texts))),
        findings=(finding,),
        **subject.describe_decomposition(texts, [False] * len(texts)),
    )


def measure_token_sensitivity(
    subject: DecomposableModel, text: ModelInput, place: int, plan: SensitivityPlan
) -> TextSensitivity:
    """Measure one text: gradients, the sum over paths of the same pass, and texts with the last
    token repeated."""
    number = plan.choose_output_direction_count(text.tokens)
    seed = plan.seed + SEEDS_APART * place  # errors of several texts are independent
    pulled = backpropagate_directions(
        subject.model_without_head, subject.stack, text.kwargs, number, seed
    )
    back, width = pulled.norms.numpy(), pulled.width
    if back.shape[1] != text.tokens:
        raise InputError(
            f"stack {subject.stack.name} takes in {back.shape[1]} states for {text.tokens} tokens: which token each is of is "
            "not understood."
        )
    rolled = multiply_attention_rollout_maps(subject, text)
    pairs = (rolled.attention, rolled.even) if rolled.attention else ()
    return TextSensitivity(
        estimate_jacobian_norms(back, width),
        estimate_jacobian_norm_shares(back, width),
        len(back),
        width,
        rolled.attention,
        even=rolled.even,
        correlations=[estimate_correlation(back, width, each, seed) for each in pairs],
        repeated_tokens=[
            measure_effect_of_repeated_last_token(subject, text, length)
            for length in choose_lengths_to_repeat_last_token(subject, text)
        ],
        floor=half_machine_epsilon(subject),
    )


class RolloutTokenShares(NamedTuple):
    """The last token's row of the product of ½Ā + ½I, of the model's maps and of uniform ones;
    empty if undefined."""

    attention: list[float]
    even: list[float]


def multiply_attention_rollout_maps(
    subject: DecomposableModel, text: ModelInput
) -> RolloutTokenShares:
    """Multiply the head means of all layers, starting at the last one; empty for a hybrid model."""
    if not all(call.attention for call in subject.stack.calls):
        return RolloutTokenShares([], [])
    means: dict[AttentionSite, tuple[Tensor, Tensor]] = {}

    def accumulate_rows_of_mean_maps(site: AttentionSite, strip: Strip) -> None:
        if (
            site.kind != "self"
            or find_block_stack_of_attention(site, subject.stacks) != subject.stack.name
        ):
            return
        if site not in means:
            blank = torch.zeros(strip.queries, strip.keys)
            means[site] = blank, blank.clone()
        rows = slice(strip.first_query, strip.first_query + strip.weights.shape[2])
        keys = slice(strip.first_key, strip.first_key + strip.weights.shape[3])
        mean, even = means[site]
        mean[rows, keys] = strip.weights[0].mean(dim=0).to(mean)
        seen = strip.visible
        even[rows, keys] = 1.0 if seen is None else seen[0, 0].to(even)

    with (
        torch.no_grad(),
        capture_attention(subject.model_without_head, accumulate_rows_of_mean_maps),
    ):
        subject.model_without_head(**text.kwargs)
    return multiply_mean_maps_of_layers(list(means.values()), text.tokens)


def multiply_mean_maps_of_layers(
    means: Sequence[tuple[Tensor, Tensor]], tokens: int
) -> RolloutTokenShares:
    """Multiply the maps from the last layer to the first."""
    if not means or any(mean.shape != (tokens, tokens) for mean, _ in means):
        return RolloutTokenShares([], [])
    rows = torch.zeros(2, tokens, dtype=torch.float64)
    rows[:, -1] = 1.0
    for mean, seen in reversed(means):
        even = seen.double() / seen.double().sum(dim=-1, keepdim=True)
        rows = (rows + torch.stack([rows[0] @ mean.double(), rows[1] @ even])) / 2.0
    return RolloutTokenShares(rows[0].tolist(), rows[1].tolist())


def choose_lengths_to_repeat_last_token(subject: DecomposableModel, text: ModelInput) -> list[int]:
    """Doubling lengths up to the text's own; none where the model reads more than one text's ids."""
    if set(text.kwargs) != {WORDS}:
        return []
    most = min(text.tokens, (find_max_positions(subject.checkpoint.model) or text.tokens + 1) - 1)
    found = []
    length = SHORTEST
    while length < most:
        found.append(length)
        length *= 2
    return [*found, most] if most >= SHORTEST else []


def measure_effect_of_repeated_last_token(
    subject: DecomposableModel, text: ModelInput, length: int
) -> RepeatedToken:
    """‖y_n(x) - y_n(x, x_n)‖ / ‖y_n(x)‖ of the text's first tokens."""
    ids = text.kwargs[WORDS][:, :length]
    once, twice = (
        move_to_float64_device(
            run_unmodified_model(
                subject.model_without_head, subject, replace(text, kwargs={WORDS: each})
            )[0][-1]
        ).double()
        for each in (ids, torch.cat([ids, ids[:, -1:]], dim=1))
    )
    return RepeatedToken(length, float((once - twice).norm() / once.norm()))


def half_machine_epsilon(subject: DecomposableModel) -> float:
    """Half the distance of two neighbouring numbers near 1, in the model's type."""
    return float(torch.finfo(subject.checkpoint.model.dtype).eps) / 2.0
