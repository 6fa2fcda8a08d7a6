"""Rows, tables and words of an attribution to input tokens."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from attncli.analysis.means_and_confidence_intervals import describe_averaging, summarize_values
from attncli.analysis.paths.path_metrics import format_percent
from attncli.maths.number_format import format_short_number
from attncli.maths.significance_tests import mean
from attncli.records import Definition, Row, Scalar, View

SHARE, OF_CONSTANTS = "attribution_share", "attribution_share_of_constants"
ROLLOUT, LIFT = "rollout", "rollout_lift"
COMPLETENESS = "completeness_error"

RELEVANCE, OF_SOURCE, SCORE = "relevance", "relevance_of_source", "relevance_score"

METRICS: Mapping[str, Definition] = {
    SHARE: Definition(
        "1",
        "⟨c_j, y⟩ / ‖y‖²: what x_j, token j at the first block's input, becomes in y, the state after the last block, "
        "with attention, norm denominators, activation ratios and gates frozen; signed, adds up to 1 with the constants.",
    ),
    OF_CONSTANTS: Definition(
        "1",
        "⟨b, y⟩ / ‖y‖² of what biases on the way become, and in a decoder the encoder's states.",
    ),
    ROLLOUT: Definition(
        "1",
        "The token's row of the product of ½Ā + ½I over the layers, Ā the mean of a layer's heads; `uniform`: the same "
        "of uniform attention over the visible keys.",
    ),
    LIFT: Definition("1", "rollout / its `uniform`: 1 where attention says nothing."),
    COMPLETENESS: Definition(
        "1", "‖y - Σ_j c_j - b‖ / ‖y‖, or how far the shares miss adding up to 1 if that is more."
    ),
}

RELEVANCES: Mapping[str, Definition] = {
    RELEVANCE: Definition(
        "1",
        "The token's row of R - I, R rolled up from E_h[(∇A ⊙ A)⁺] of every attention, ∇A the gradient of relevance_score "
        "(Chefer, Gur & Wolf 2021); not complete: its numbers add up to nothing that is known.",
    ),
    OF_SOURCE: Definition(
        "1",
        "The same of the tokens that the encoder has read, through cross-attention: the paper's equations 7 to 10.",
    ),
    SCORE: Definition(
        "1",
        "The number that relevance explains: the logit of a class or a token; 1 for the state itself.",
    ),
}
"""Metrics of `--relevance`."""

ALL_LISTED, LISTED = 40, 24
"""Texts with more than ALL_LISTED visible tokens list only LISTED of them."""

NAMED = 4
"""Tokens in the headline."""
WORTH_TELLING = 1.2
"""Smallest ratio of the largest lift that is reported: anything nearer to 1 is uniform attention.
"""

MARK, LARGE = "mark", "large"
"""Key and value that mark the listed rows where not all are listed."""


class AttributedText(NamedTuple):
    """The attribution on one text."""

    position: int
    shares: list[float]
    """Of every token."""
    rollout: list[float]
    even: list[float]
    """Rollout of uniform attention."""
    of_constants: float
    completeness: float
    relevance: tuple[float, ...] = ()
    """Relevance of every token; empty where it was not requested."""
    of_source: tuple[float, ...] = ()
    """Of every token that the encoder has read."""
    score: float = math.nan
    score_name: str = ""
    """Name of the explained score."""


class ChosenToken(NamedTuple):
    """The attributed token, and the input tokens that it sees."""

    position: int
    words: Mapping[int, str]
    """Names of the visible tokens; empty where they have none."""

    @property
    def name_of_chosen_token(self) -> str:
        return self.format_token_at_position(self.position)

    def format_token_at_position(self, place: int) -> str:
        return f"token {place} {self.words.get(place, '')}".rstrip()

    def format_token_relative_to_chosen(self, place: int) -> str:
        return "itself" if place == self.position else self.format_token_at_position(place)


def build_token_attribution_rows(
    chosen: ChosenToken, texts: Sequence[AttributedText]
) -> Iterator[Row]:
    """Rows of every visible token; the others are 0 by construction."""
    for place, word in chosen.words.items():
        keys: dict[str, Scalar] = {"position": place, **({"word": word} if word else {})}
        even = texts[0].even[place]
        rollout = [one.rollout[place] for one in texts]
        numbers: Mapping[str, tuple[list[float], dict[str, Scalar]]] = {
            SHARE: ([one.shares[place] for one in texts], {}),
            LIFT: ([value / even for value in rollout], {}),
            ROLLOUT: (rollout, {"uniform": even}),
        }
        if texts[0].relevance:
            numbers = {**numbers, RELEVANCE: ([one.relevance[place] for one in texts], {})}
        for metric, (values, extra_keys) in numbers.items():
            yield summarize_values(
                metric, "1", values, "", {**keys, **extra_keys}, variant=chosen.name_of_chosen_token
            )


def mark_rows_of_top_attributed_tokens(rows: Iterator[Row], top: int | None) -> Iterator[Row]:
    """Mark the rows of the largest shares, where the table cannot list all."""
    everything = list(rows)
    order = sort_token_positions_by_attribution(everything)
    most = top or (len(order) if len(order) <= ALL_LISTED else LISTED)
    large = set(order[:most]) if most < len(order) else set()
    for row in everything:
        mark = {MARK: LARGE} if row.keys["position"] in large else {}
        yield replace(row, keys={**row.keys, **mark})


def sort_token_positions_by_attribution(rows: Sequence[Row]) -> list[Scalar]:
    """Positions, that with the largest share first."""
    sizes = {row.keys["position"]: abs(row.value or 0.0) for row in rows if row.metric == SHARE}
    return sorted(sizes, key=lambda place: -sizes[place])


def build_attribution_completeness_rows(
    chosen: ChosenToken, texts: Sequence[AttributedText]
) -> Iterator[Row]:
    for metric, values in (
        (OF_CONSTANTS, [one.of_constants for one in texts]),
        (COMPLETENESS, [one.completeness for one in texts]),
    ):
        yield summarize_values(metric, "1", values, "", variant=chosen.name_of_chosen_token)


def build_relevance_rows(
    chosen: ChosenToken, texts: Sequence[AttributedText], source: Sequence[str]
) -> Iterator[Row]:
    """Rows of relevance besides those of single tokens; `source`: names of the encoder's tokens."""
    if not texts[0].relevance:
        return
    yield summarize_values(
        SCORE, "1", [one.score for one in texts], "", variant=chosen.name_of_chosen_token
    )
    for place in range(len(texts[0].of_source)):
        keys: dict[str, Scalar] = {"position": place, "stack": "encoder"}
        keys |= {"word": source[place]} if len(source) == len(texts[0].of_source) else {}
        values = [one.of_source[place] for one in texts]
        yield summarize_values(
            OF_SOURCE, "1", values, "", keys, variant=chosen.name_of_chosen_token
        )


def describe_relevance(
    chosen: ChosenToken, texts: Sequence[AttributedText], rows: Sequence[Row]
) -> str:
    """Describe the explained score and the tokens with the largest relevance."""
    names = sorted({one.score_name for one in texts})
    score = mean([one.score for one in texts])
    what = names[0] if len(names) == 1 else "the top of each text"
    heading = f"Relevance for {what} ({format_short_number(score, 4)})"
    relevant = [row for row in rows if row.metric in (RELEVANCE, OF_SOURCE) and row.value]
    most = sorted(relevant, key=lambda row: -(row.value or 0.0))[:NAMED]
    places = ", ".join(
        f"{format_relevant_token(chosen, row)} {format_short_number(row.value or 0.0, 3)}"
        for row in most
    )
    return f"{heading}: {places or 'none, no map has a gradient above 0'}."


def format_relevant_token(chosen: ChosenToken, row: Row) -> str:
    place = int(row.keys["position"])
    if row.metric == OF_SOURCE:
        return f"encoder {place} {row.keys.get('word', '')}".rstrip()
    return chosen.format_token_relative_to_chosen(place)


def format_top_attributed_tokens_headline(
    chosen: ChosenToken, rows: Sequence[Row], blocks: int
) -> str:
    """Describe the largest parts of the state, in order."""
    shares = {row.keys.get("position"): row.value or 0.0 for row in rows if row.metric == SHARE}
    (constants,) = [row.value or 0.0 for row in rows if row.metric == OF_CONSTANTS]
    parts = [
        f"{format_percent(shares[place])} from {chosen.format_token_relative_to_chosen(int(place))}"
        for place in sort_token_positions_by_attribution(rows)[:NAMED]
    ]
    lift = max((row for row in rows if row.metric == LIFT), key=lambda row: row.value or 0.0)
    heading = f"T{chosen.name_of_chosen_token[1:]} after {blocks} blocks: {', '.join(parts)}, {format_percent(constants)} from biases"
    if (lift.value or 0.0) < WORTH_TELLING:
        return f"{heading}."
    where = chosen.format_token_relative_to_chosen(int(lift.keys["position"]))
    return f"{heading}; rollout is furthest above uniform attention at {where}, {format_short_number(lift.value or 0.0, 2)} times."


def build_attribution_tables(
    chosen: ChosenToken, rows: Sequence[Row], texts: int
) -> Iterator[View]:
    over = describe_averaging(texts, "texts")
    few = sum(row.keys.get(MARK) == LARGE for row in rows if row.metric == SHARE)
    which = f"the {few} input tokens with the largest shares" if few else "input tokens"
    yield View(
        f"{chosen.name_of_chosen_token}: {which}{over}",
        "position",
        (SHARE, LIFT, ROLLOUT, *([RELEVANCE] if any(r.metric == RELEVANCE for r in rows) else [])),
        where={MARK: LARGE} if few else {},
        names="word",
    )
    if any(row.metric == OF_SOURCE for row in rows):
        yield View("what the encoder has read", "position", (OF_SOURCE,), names="word")
    yield View("Do the parts add up to the state?", "variant", (OF_CONSTANTS, COMPLETENESS))
