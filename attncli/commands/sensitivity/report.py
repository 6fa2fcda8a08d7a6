"""Rows, tables and words of sensitivities."""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from attncli.analysis.means_and_confidence_intervals import (
    describe_averaging,
    select_rows_indistinguishable_from_first,
    select_rows_indistinguishable_from_last,
    summarize_values,
)
from attncli.analysis.paths.jacobian_norm_sampling import (
    EstimateWithError,
    TokenEstimatesWithErrors,
)
from attncli.analysis.paths.path_metrics import format_percent
from attncli.errors import format_count
from attncli.maths.curve_fits.straight_line_slopes import fit_slopes_of_lines
from attncli.maths.number_format import format_number
from attncli.maths.significance_tests import (
    ConfidenceInterval,
    compute_student_confidence_interval,
    standard_deviation,
)
from attncli.records import HIGH, LOW, NOT_APPLICABLE, UNIFORM, Definition, Row, Scalar, View

SENSITIVITY, SHARE, PATHS = "sensitivity", "sensitivity_share", "path_sum"
DISTANCE, SLOPE = "repeat_distance", "repeat_distance_slope"
BFLOAT16 = 2.0**-8
"""Half the distance of two neighbouring numbers of bfloat16 near 1."""

SAMPLING = "error: standard error where it is estimated from random directions (their number under directions); low, high: 95 % interval, over the directions or, of several texts, over texts."
METRICS: Mapping[str, Definition] = {
    SENSITIVITY: Definition("1", f"‖∂y_n/∂x_i‖_F: how far the last token's state after the last block moves with token i's before the first. {SAMPLING}"),
    SHARE: Definition("1", f"sensitivity over its sum over all tokens. {SAMPLING}"),
    PATHS: Definition("1", "The last token's row of the product of ½Ā + ½I over the layers, Ā the mean of a layer's heads: the weight of all paths of attention from token i; `uniform`: of uniform attention."),
    DISTANCE: Definition("1", "‖y_n(x) - y_n(x, x_n)‖ / ‖y_n(x)‖: what repeating the last of `length` tokens changes in the last state; `floor`: half a step of the model's type, below which it sees no change."),
    SLOPE: Definition("1", "Exponent e of repeat_distance ~ n^e, least squares in logarithms."),
}  # fmt: skip

ALL_LISTED, ENDS = 40, 8
"""Of longer texts only the first and last tokens, and as many of the largest, are in the table."""
MARK, LARGE = "mark", "large"
FEWEST_RANKED = 5
"""Tokens from which the first line tells a rank correlation."""


class RepeatedToken(NamedTuple):
    """Distance between a text's last state and that of the text with its last token repeated."""

    length: int
    distance: float


class TextSensitivity(NamedTuple):
    """The results of one text."""

    norms: TokenEstimatesWithErrors
    """Of every token."""
    shares: TokenEstimatesWithErrors
    directions: int
    width: int
    """Of the state: as many directions are exact."""
    paths: list[float]
    even: list[float]
    correlations: list[EstimateWithError]
    """Correlations of the norms with `paths` and with `even`; empty where there are none."""
    repeated_tokens: list[RepeatedToken]
    floor: float

    @property
    def uses_all_output_directions(self) -> bool:
        return self.directions >= self.width


def build_token_sensitivity_rows(
    texts: Sequence[TextSensitivity], words: Sequence[str]
) -> Iterator[Row]:
    listed = select_token_positions_to_report(texts)
    for place in range(len(texts[0].norms.values)):
        keys: dict[str, Scalar] = {"position": place}
        keys |= {"word": words[place]} if place < len(words) else {}
        keys |= {MARK: LARGE} if place in listed else {}
        yield build_report_row_with_direction_error(
            SENSITIVITY, texts, [one.norms for one in texts], place, keys
        )
        yield build_report_row_with_direction_error(
            SHARE, texts, [one.shares for one in texts], place, keys
        )
        if not all(one.paths for one in texts):
            note = f"{NOT_APPLICABLE}the stack's blocks do not all mix tokens by square maps of attention"
            yield Row(PATHS, None, "1", note=note, keys=keys)
            continue
        even = math.fsum(one.even[place] for one in texts) / len(texts)
        paths = [one.paths[place] for one in texts]
        yield summarize_values(PATHS, "1", paths, "", keys={**keys, UNIFORM: even})


def build_report_row_with_direction_error(
    metric: str,
    texts: Sequence[TextSensitivity],
    numbers: Sequence[TokenEstimatesWithErrors],
    place: int,
    keys: Mapping[str, Scalar],
) -> Row:
    """The mean over texts, with its error by the directions and the interval."""
    values = [each.values[place] for each in numbers]
    error = math.sqrt(math.fsum(each.errors[place] ** 2 for each in numbers)) / len(numbers)
    around = confidence_interval_over_directions(values, error, texts[0].directions)
    sampling: dict[str, Scalar] = (
        {} if texts[0].uses_all_output_directions else {"directions": texts[0].directions}
    )
    sampling |= {} if math.isnan(error) else {"error": error}
    sampling |= {LOW: around.low, HIGH: around.high} if math.isfinite(around.high) else {}
    return summarize_values(metric, "1", values, "", keys={**keys, **sampling})


def confidence_interval_over_directions(
    values: Sequence[float], error: float, directions: int
) -> ConfidenceInterval:
    """Interval of one text over its directions; of several texts over the texts, each with its own
    directions."""
    mean = math.fsum(values) / len(values)
    by_texts = standard_deviation(values, mean)
    if by_texts is None:
        return compute_student_confidence_interval(mean, error, directions - 1)
    return compute_student_confidence_interval(
        mean, by_texts / math.sqrt(len(values)), len(values) - 1
    )


def select_token_positions_to_report(texts: Sequence[TextSensitivity]) -> set[int]:
    """Empty where all are."""
    tokens = len(texts[0].norms)
    if tokens <= ALL_LISTED:
        return set()
    mean = np.mean([one.norms.values for one in texts], axis=0)
    return {*range(ENDS), *range(tokens - ENDS, tokens), *map(int, np.argsort(-mean)[:ENDS])}


def build_repeated_last_token_rows(texts: Sequence[TextSensitivity]) -> Iterator[Row]:
    for index, each in enumerate(texts[0].repeated_tokens):
        distances = [one.repeated_tokens[index].distance for one in texts]
        keys: dict[str, Scalar] = {"length": each.length, "floor": texts[0].floor}
        yield summarize_values(DISTANCE, "1", distances, "", keys=keys)
    lines = [
        line
        for one in texts
        if (line := fit_repeated_token_exponent(one.repeated_tokens)) is not None
    ]
    if lines and len(lines) == len(texts):
        error = math.sqrt(math.fsum(line[1] ** 2 for line in lines)) / len(lines)
        yield summarize_values(SLOPE, "1", [line[0] for line in lines], "", keys={"error": error})


def fit_repeated_token_exponent(repeated: Sequence[RepeatedToken]) -> tuple[float, float] | None:
    """The exponent and its standard error; None for too few lengths, or if nothing moves."""
    if len(repeated) < 3 or any(each.distance <= 0.0 for each in repeated):
        return None
    places = np.log([each.length for each in repeated])
    found = fit_slopes_of_lines(places, np.log([[each.distance for each in repeated]]))
    return float(found.slope[0]), float(found.error[0])


def format_sensitivity_headline(
    texts: Sequence[TextSensitivity], words: Sequence[str], rows: Sequence[Row], blocks: int
) -> str:
    """Which tokens the last one is most sensitive to, as far as the intervals separate them; the paths; and repeats."""
    shares = [row for row in rows if row.metric == SHARE]
    sentence = f"After {format_count(blocks, 'block')} token {len(shares) - 1} {describe_most_sensitive_tokens(shares, words)}{describe_sampled_output_directions(texts)}"
    return f"{sentence}{describe_correlations_with_paths(texts)}{describe_repeated_token_distances(texts)}."


def describe_most_sensitive_tokens(shares: Sequence[Row], words: Sequence[str]) -> str:
    """Describe the most sensitive tokens, without ordering those whose intervals overlap."""
    if not all(HIGH in row.keys for row in shares):
        return "is sensitive to all tokens in an order that one direction cannot tell, for it has no known error"
    order = sorted(shares, key=lambda row: -(row.value or 0.0))
    first = select_rows_indistinguishable_from_first(order)
    second = select_rows_indistinguishable_from_first(order[1:]) if len(first) == 1 else []
    sentence = ", then to ".join(
        describe_tokens_of_equal_rank(group, words) for group in (first, second) if group
    )
    least = select_rows_indistinguishable_from_last(order)
    least_apart = len(least) == 1 and least[0] not in (*first, *second)
    return f"is most sensitive to {sentence}" + (
        f"; least to {describe_tokens_of_equal_rank(least, words)}" if least_apart else ""
    )


def describe_tokens_of_equal_rank(rows: Sequence[Row], words: Sequence[str]) -> str:
    """One token; or how many, and the first two of them."""
    few = [
        f"{format_token_with_position(int(row.keys['position']), words)} ({format_share_with_interval(row)})"
        for row in rows[:2]
    ]
    if len(rows) == 1:
        return few[0]
    more = ", …" if len(rows) > 2 else ""
    return (
        f"one of {format_count(len(rows), 'token')} that cannot be ranked: {', '.join(few)}{more}"
    )


def format_share_with_interval(row: Row) -> str:
    low, high = float(row.keys[LOW]), float(row.keys[HIGH])
    value = format_percent(row.value or 0.0)
    return (
        value
        if low == high
        else f"{value}, {format_percent(low).removesuffix(' %')} to {format_percent(high)}"
    )


def describe_sampled_output_directions(texts: Sequence[TextSensitivity]) -> str:
    """Describe what the intervals are over; empty where there are none."""
    if len(texts) > 1:
        return f" (95 % intervals over {format_count(len(texts), 'text')})"
    one = texts[0]
    return (
        ""
        if one.uses_all_output_directions or one.directions < 2
        else f" (95 % intervals: {one.directions} of {one.width} directions)"
    )


def describe_correlations_with_paths(texts: Sequence[TextSensitivity]) -> str:
    """Empty where no paths are summed, or too few tokens have ranks: two always agree or disagree entirely."""
    if not all(one.correlations and len(one.paths) >= FEWEST_RANKED for one in texts):
        return ""
    own, even = (
        format_mean_with_error([one.correlations[which] for one in texts]) for which in (0, 1)
    )
    return (
        f"; rank correlation with the sum over paths {own}, with that of uniform attention {even}"
    )


def format_mean_with_error(estimates: Sequence[EstimateWithError]) -> str:
    """`0.61 ± 0.05`: the mean and its standard error, over texts where there are several."""
    values = [each.value for each in estimates]
    mean = float(np.mean(values))
    by_texts = standard_deviation(values, mean)
    error = estimates[0].error if by_texts is None else by_texts / math.sqrt(len(values))
    return f"{mean:.2f} ± {error:.2f}" if error > 0.0 else f"{mean:.2f}"


def format_token_with_position(place: int, words: Sequence[str]) -> str:
    return f"token {place} {words[place]}".rstrip() if place < len(words) else f"token {place}"


def describe_repeated_token_distances(texts: Sequence[TextSensitivity]) -> str:
    if not texts[0].repeated_tokens:
        return ""
    first, last = texts[0].repeated_tokens[0], texts[0].repeated_tokens[-1]
    start, end = (
        float(np.mean([one.repeated_tokens[i].distance for one in texts])) for i in (0, -1)
    )
    sentence = (
        f"; repeating the last token changes it by {format_percent(start)} at {first.length} tokens"
    )
    if last.length > first.length:
        sentence += f" and {format_percent(end)} at {last.length}"
    below = [
        each.length
        for index, each in enumerate(texts[0].repeated_tokens)
        if np.mean([one.repeated_tokens[index].distance for one in texts]) < BFLOAT16
    ]
    return sentence + (
        f": below what bfloat16 tells apart ({format_number(BFLOAT16)}) at {below[0]}"
        if below
        else ""
    )


def build_sensitivity_tables(rows: Sequence[Row], texts: int) -> Iterator[View]:
    over = describe_averaging(texts, "texts")
    few: dict[str, Scalar] = {MARK: LARGE} if any(MARK in row.keys for row in rows) else {}
    which = "the ends of the text, and the tokens it is moved most by" if few else "input tokens"
    yield View(
        f"The last token: {which}{over}",
        "position",
        (SENSITIVITY, SHARE, PATHS),
        where=few,
        names="word",
    )
    if any(row.metric == DISTANCE for row in rows):
        yield View(f"The last token once more{over}", "length", (DISTANCE,))
