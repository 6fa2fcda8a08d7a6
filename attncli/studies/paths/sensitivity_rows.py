"""Rows, tables and words of sensitivities."""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from attncli.maths.curves.slopes import slopes
from attncli.maths.digits import number
from attncli.records import NOT_APPLICABLE, Definition, Row, Scalar, View
from attncli.studies.nulls import UNIFORM
from attncli.studies.paths.path_words import percent
from attncli.studies.statistics import averaged, summary_row

SENSITIVITY, SHARE, PATHS = "sensitivity", "sensitivity_share", "path_sum"
DISTANCE, SLOPE = "repeat_distance", "repeat_distance_slope"
BFLOAT16 = 2.0**-8
"""Half the distance of two neighbouring numbers of bfloat16 near 1."""

METRICS: Mapping[str, Definition] = {
    SENSITIVITY: Definition("1", "‖∂y_n/∂x_i‖_F: how far the last token's state after the last block moves with token i's before the first; `error`: its standard error, where it is from directions at random."),
    SHARE: Definition("1", "sensitivity over its sum over all tokens."),
    PATHS: Definition("1", "The last token's row of the product of ½Ā + ½I over the layers, Ā the mean of a layer's heads: the weight of all paths of attention from token i; `uniform`: of uniform attention."),
    DISTANCE: Definition("1", "‖y_n(x) - y_n(x, x_n)‖ / ‖y_n(x)‖: what repeating the last of `length` tokens changes in the last state; `floor`: half a step of the model's type, below which it sees no change."),
    SLOPE: Definition("1", "Exponent e of repeat_distance ~ n^e, least squares in logarithms."),
}  # fmt: skip

ALL_LISTED, ENDS = 40, 8
"""Of longer texts only the first and last tokens, and as many of the largest, are in the table."""
MARK, LARGE = "mark", "large"


class RepeatedOnce(NamedTuple):
    """A text whose last token comes twice."""

    length: int
    distance: float


class Sensed(NamedTuple):
    """What one text has shown."""

    norms: list[float]
    """Of every token."""
    errors: list[float]
    """nan where it is not known."""
    paths: list[float]
    even: list[float]
    repeated: list[RepeatedOnce]
    floor: float


def shares(norms: Sequence[float]) -> list[float]:
    whole = math.fsum(norms)
    return [norm / whole if whole else 0.0 for norm in norms]


def position_rows(found: Sequence[Sensed], words: Sequence[str]) -> Iterator[Row]:
    listed = in_table(found)
    for place in range(len(found[0].norms)):
        keys: dict[str, Scalar] = {"position": place}
        keys |= {"word": words[place]} if place < len(words) else {}
        keys |= {MARK: LARGE} if place in listed else {}
        errors = [one.errors[place] for one in found]
        error = math.sqrt(math.fsum(each**2 for each in errors)) / len(errors)
        told: dict[str, Scalar] = {} if math.isnan(error) else {"error": error}
        norms = [one.norms[place] for one in found]
        yield summary_row(SENSITIVITY, "1", norms, "", keys={**keys, **told})
        own = [shares(one.norms)[place] for one in found]
        yield summary_row(SHARE, "1", own, "", keys=keys)
        if not all(one.paths for one in found):
            note = f"{NOT_APPLICABLE}the stack's blocks do not all mix tokens by square maps of attention"
            yield Row(PATHS, None, "1", note=note, keys=keys)
            continue
        even = math.fsum(one.even[place] for one in found) / len(found)
        paths = [one.paths[place] for one in found]
        yield summary_row(PATHS, "1", paths, "", keys={**keys, UNIFORM: even})


def in_table(found: Sequence[Sensed]) -> set[int]:
    """Empty where all are."""
    tokens = len(found[0].norms)
    if tokens <= ALL_LISTED:
        return set()
    mean = np.mean([one.norms for one in found], axis=0)
    return {*range(ENDS), *range(tokens - ENDS, tokens), *map(int, np.argsort(-mean)[:ENDS])}


def repeat_rows(found: Sequence[Sensed]) -> Iterator[Row]:
    for index, each in enumerate(found[0].repeated):
        distances = [one.repeated[index].distance for one in found]
        keys: dict[str, Scalar] = {"length": each.length, "floor": found[0].floor}
        yield summary_row(DISTANCE, "1", distances, "", keys=keys)
    lines = [line for one in found if (line := line_of(one.repeated)) is not None]
    if lines and len(lines) == len(found):
        error = math.sqrt(math.fsum(line[1] ** 2 for line in lines)) / len(lines)
        yield summary_row(SLOPE, "1", [line[0] for line in lines], "", keys={"error": error})


def line_of(repeated: Sequence[RepeatedOnce]) -> tuple[float, float] | None:
    """The exponent and its standard error; None of too few lengths, or where nothing moves."""
    if len(repeated) < 3 or any(each.distance <= 0.0 for each in repeated):
        return None
    places = np.log([each.length for each in repeated])
    found = slopes(places, np.log([[each.distance for each in repeated]]))
    return float(found.slope[0]), float(found.error[0])


def headline(found: Sequence[Sensed], words: Sequence[str], blocks: int) -> str:
    """Of the mean over texts: which tokens are heard most and least, how that follows the paths, and repeats."""
    mean = shares(np.mean([one.norms for one in found], axis=0).tolist())
    order = sorted(range(len(mean)), key=lambda place: -mean[place])
    told = [f"{percent(mean[place])} by {named(place, words)}" for place in (*order[:2], order[-1])]
    said = f"Token {len(mean) - 1} after {blocks} blocks is moved most by two tokens: {told[0]}, {told[1]}; least, {told[2]}"
    if all(one.paths for one in found):
        own, even = (
            float(np.mean([ranked_alike(one.norms, each) for one, each in pairs]))
            for pairs in ([(one, one.paths) for one in found], [(one, one.even) for one in found])
        )
        said += f"; rank correlation with the sum over paths {own:.2f}, with that of uniform attention {even:.2f}"
    return f"{said}{repeats_in_words(found)}."


def named(place: int, words: Sequence[str]) -> str:
    return f"token {place} {words[place]}".rstrip() if place < len(words) else f"token {place}"


def ranked_alike(first: Sequence[float], second: Sequence[float]) -> float:
    """Spearman's correlation; nan where one is the same everywhere."""
    x, y = (ranks(values) for values in (first, second))
    size = float(x.std() * y.std())
    return float(((x - x.mean()) * (y - y.mean())).mean()) / size if size > 0.0 else math.nan


def ranks(values: Sequence[float]) -> np.ndarray:
    """Equal values share their mean rank."""
    array = np.asarray(values)
    return np.array([(array < v).sum() + ((array == v).sum() - 1) / 2.0 for v in array])


def repeats_in_words(found: Sequence[Sensed]) -> str:
    if not found[0].repeated:
        return ""
    first, last = found[0].repeated[0], found[0].repeated[-1]
    start, end = (float(np.mean([one.repeated[i].distance for one in found])) for i in (0, -1))
    said = f"; repeating the last token changes it by {percent(start)} at {first.length} tokens and {percent(end)} at {last.length}"
    below = [
        each.length
        for index, each in enumerate(found[0].repeated)
        if np.mean([one.repeated[index].distance for one in found]) < BFLOAT16
    ]
    return said + (f": below what bfloat16 tells apart ({number(BFLOAT16)}) at {below[0]}" if below else "")  # fmt: skip


def views(rows: Sequence[Row], texts: int) -> Iterator[View]:
    over = averaged(texts, "texts")
    few: dict[str, Any] = {MARK: LARGE} if any(MARK in row.keys for row in rows) else {}
    which = "the ends of the text, and the tokens it is moved most by" if few else "input tokens"
    yield View(f"The last token: {which}{over}", "position", (SENSITIVITY, SHARE, PATHS), where=few, names="word")  # fmt: skip
    if any(row.metric == DISTANCE for row in rows):
        yield View(f"The last token once more{over}", "length", (DISTANCE,))
