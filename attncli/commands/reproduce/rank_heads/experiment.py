"""`attn reproduce rank-heads`: how few ranks many heads make up for, on the nearest of a few tokens."""

from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np

from attncli.analysis import Progress, ignore_progress
from attncli.analysis.statistics import describe_averaging, summarize_values
from attncli.commands.reproduce.rank_heads.head_layer import (
    BATCH,
    HeadLayer,
    build_loss,
    compute_answers,
    draw_test_questions,
)
from attncli.commands.reproduce.rank_heads.head_plan import LEARNING_RATE, RankHeads
from attncli.commands.reproduce.rank_heads.nearest_token import SphereQuestions
from attncli.commands.reproduce.rank_heads.rank_head_metrics import RANK_HEAD_METRICS
from attncli.commands.reproduce.saving import SavedTraining
from attncli.commands.reproduce.training import train
from attncli.errors import format_count
from attncli.limits import require_memory
from attncli.maths.capacity.low_rank_head import head_mean_squared_error
from attncli.maths.noise import standard_deviation
from attncli.records import NOT_APPLICABLE, Finding, Report, Row, Scalar, View

TWO_ALONE = NOT_APPLICABLE + "more than two tokens have no closed form here"

Measured = Mapping[str, Sequence[float]]
"""One number of each seed."""


def rank_heads(
    wanted: RankHeads,
    saved_as: Callable[[str], SavedTraining | None] = lambda name: None,
    progress: Progress = ignore_progress,
) -> Report:
    """Train the layers of every seed and measure their errors."""
    require_room(wanted)
    layers = list(wanted.layers())
    questions = draw_test_questions(wanted.tokens, wanted.dimension, wanted.seeds)
    done = 0

    def tick(steps: int) -> None:
        nonlocal done
        done += steps
        progress(done, wanted.training_steps * len(layers), "steps")

    found: dict[tuple[int, int], Measured] = {}
    for product, rank in layers:
        layer = HeadLayer(wanted.dimension, rank, product // rank, wanted.seeds)
        loss = build_loss(layer, wanted.tokens, wanted.dimension, wanted.seeds)
        saved = saved_as(f"d{wanted.dimension}-n{wanted.tokens}-rank{rank}-heads{product // rank}")
        train(layer, loss, wanted.plan(product, rank), saved, tick)
        found[product, rank] = evaluate_layer(questions, compute_answers(layer, questions))
    return Report(
        study="approximate rank-heads",
        headline=format_headline(wanted, found),
        rows=tuple(
            row for key, values in found.items() for row in build_rows(wanted, *key, values)
        ),
        metrics=RANK_HEAD_METRICS,
        source=describe_source(wanted),
        input={
            "task": "rank-heads",
            "tokens": wanted.tokens,
            "dimension": wanted.dimension,
            "questions": len(questions[0].queries),
        },
        seeds=tuple(wanted.seeds),
        views=tuple(build_views(wanted)),
        findings=tuple(
            Finding(f"H · r = {product}", describe_errors(wanted, found, product))
            for product in wanted.products
        ),
    )


def require_room(wanted: RankHeads) -> None:
    """Check the memory for weights, gradients and two moments in float32, and a batch's
    activations."""
    heads = max(product // rank for product, rank in wanted.layers())
    d, widest = wanted.dimension, max(wanted.products)
    weights = 4 * 4 * (2 * d * widest + heads * d * d)
    kept = 4 * 3 * BATCH * (wanted.tokens * widest + heads * (wanted.tokens + d))
    advice = "lower `dimension`, `heads_times_rank` or `seeds`"
    require_memory(len(wanted.seeds) * (weights + kept), "This training", advice)


def evaluate_layer(questions: Sequence[SphereQuestions], given: Sequence[np.ndarray]) -> Measured:
    """Of every seed: the error, its share of uniform attention's, and how often the answer is nearest to the right token."""
    found: dict[str, list[float]] = {"error": [], "error_share": [], "right_choices": []}
    for each, answer in zip(questions, given, strict=True):
        error = mean_squared_distance(answer - each.nearest)
        chosen = np.square(each.tokens - answer[:, None]).sum(axis=2).argmin(axis=1)
        right = np.einsum("bnd,bd->bn", each.tokens, each.queries).argmax(axis=1)
        found["error"].append(error)
        found["error_share"].append(error / uniform_error(each))
        found["right_choices"].append(float((chosen == right).mean()))
    return found


def uniform_error(questions: SphereQuestions) -> float:
    """Error of the best multiple of the mean token: of a layer whose weights do not depend on the
    query."""
    mean, wanted = questions.tokens.mean(axis=1), questions.nearest
    factor = float((mean * wanted).sum() / np.square(mean).sum())
    return mean_squared_distance(factor * mean - wanted)


def mean_squared_distance(distances: np.ndarray) -> float:
    """Mean over the questions."""
    return float(np.square(distances).sum(axis=1).mean())


def build_rows(wanted: RankHeads, product: int, rank: int, values: Measured) -> Iterator[Row]:
    keys: dict[str, Scalar] = {"heads_times_rank": product, "rank": rank, "heads": product // rank}
    for metric, each in values.items():
        yield summarize_values(metric, RANK_HEAD_METRICS[metric].unit, each, "", keys)
    two = wanted.tokens == 2
    closed = head_mean_squared_error(rank, wanted.dimension) if two else None
    unit = RANK_HEAD_METRICS["projecting_error"].unit
    yield Row("projecting_error", closed, unit, keys=keys, note=None if two else TWO_ALONE)
    d = wanted.dimension
    weights = float(2 * d * product + product // rank * d * d)
    yield Row("weights", weights, RANK_HEAD_METRICS["weights"].unit, keys=keys)


def build_views(wanted: RankHeads) -> Iterator[View]:
    over = describe_averaging(len(wanted.seeds), "seeds")
    for product in wanted.products:
        title = f"H · r = {product}{over}"
        yield View(title, "rank", tuple(RANK_HEAD_METRICS), where={"heads_times_rank": product})
    title = f"Error as a share of uniform attention's{over}"
    yield View(title, "rank", ("error_share",), across="heads_times_rank")
    yield View("In words", "H · r", (), findings="answer")


def describe_errors(
    wanted: RankHeads, found: Mapping[tuple[int, int], Measured], product: int
) -> str:
    """`35 ± 1 % of uniform attention's error with 8 heads of rank 1, …`"""
    parts = [
        f"{format_share(found[own, rank]['error_share'])} with {format_heads(product // rank)} of rank {rank}"
        for own, rank in wanted.layers()
        if own == product
    ]
    return ", ".join(parts)


def format_share(values: Sequence[float]) -> str:
    mean = sum(values) / len(values)
    deviation = standard_deviation(values, mean)
    noise = "" if deviation is None else f" ± {100 * deviation:.2g}"
    return f"{100 * mean:.3g}{noise} %"


def format_heads(count: int) -> str:
    return format_count(count, "head")


def format_headline(wanted: RankHeads, found: Mapping[tuple[int, int], Measured]) -> str:
    told = [
        f"at H · r = {product} {describe_errors(wanted, found, product)}"
        for product in wanted.products
    ]
    return (
        f"The nearest of {format_count(wanted.tokens, 'token')} in {wanted.dimension} dimensions, error as a share of uniform attention's: "
        + "; ".join(told)
        + "."
    )


def describe_source(wanted: RankHeads) -> dict[str, Scalar | dict[str, Scalar]]:
    return {
        "kind": "trained here",
        "dimension": wanted.dimension,
        "tokens": wanted.tokens,
        "ranks": ",".join(map(str, wanted.ranks)),
        "heads_times_rank": ",".join(map(str, wanted.products)),
        "training": {
            "steps": wanted.training_steps,
            "learning_rate": LEARNING_RATE,
            "batch": BATCH,
        },
    }
