"""The strongest query → key pairs of each head as rows and tables: `fox@3 ← quick@1 0.93 (0.11)`."""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from attncli.analysis.heads.forward_passes.strongest_token_pairs import HeadPairs
from attncli.analysis.heads.report_rows.extreme_heads import format_layer_and_head
from attncli.analysis.heads.report_rows.head_rows import SILENT, HeadObservations, Keeps
from attncli.analysis.heads.report_rows.token_names import TokenNames
from attncli.analysis.heads.report_rows.token_pair_and_completeness_definitions import PAIR
from attncli.capture import AttentionSite
from attncli.records import NOT_APPLICABLE, UNIFORM, Row, Scalar, View, format_token_position

QUERY_TOKEN, KEY_TOKEN = "query_token", "key_token"
"""Keys of a row: the two tokens in words, where they are known."""
OTHERS = "other_queries"
"""Key of a row: the mean weight that all other queries give the key."""
FEW = 4
"""Up to this many heads have a column each; otherwise each has a line."""


def token_pair_rows(
    observed: HeadObservations,
    names: Sequence[TokenNames],
    keys: Mapping[AttentionSite, Mapping[str, Scalar]],
    selects: Keeps,
    most: int,
) -> Iterator[Row]:
    """Rows of every head's strongest pairs over all texts; `names`: the tokens of each text."""
    for site in observed.attention_sites:
        own = [seen.pairs[site] for seen in observed.texts if site in seen.pairs]
        if not own:
            continue
        if any(found.shape[0] > 1 for found in own):
            note = (
                f"{NOT_APPLICABLE}it attends within windows, whose tokens have no place in the text"
            )
            yield Row(PAIR, None, "1", layer=site.layer, note=note, keys=keys[site])
            continue
        numbers = observed.numbers.get(site, range(len(own[0].weights)))
        words = [
            of.names_of_queries_and_keys(site, *pairs.shape[1:])
            for of, pairs in zip(names, own, strict=True)
        ]
        for head, number in enumerate(numbers):
            if selects(site.layer, number) and head in observed.find_heads_with_zero_maps(site):
                ranks = {**keys[site], "rank": 1}
                yield Row(PAIR, None, "1", layer=site.layer, head=number, note=SILENT, keys=ranks)
            elif selects(site.layer, number):
                for rank, found in enumerate(rank_token_pairs(own, words, head)[:most], start=1):
                    yield found.build_token_pair_row(
                        site.layer, number, {**keys[site], "rank": rank}
                    )


class TokenPair(NamedTuple):
    """One pair of one head."""

    weight: float
    even: float
    others: float | None
    """None where no other query sees the key."""
    places: Mapping[str, Scalar]
    """Which tokens of which text."""

    def build_token_pair_row(self, layer: int, head: int, keys: Mapping[str, Scalar]) -> Row:
        others = {} if self.others is None else {OTHERS: self.others}
        places = {**keys, **self.places, UNIFORM: self.even, **others}
        return Row(PAIR, self.weight, "1", layer=layer, head=head, keys=places)


def rank_token_pairs(
    own: Sequence[HeadPairs], words: Sequence[tuple[Sequence[str], Sequence[str]]], head: int
) -> list[TokenPair]:
    """A head's pairs in all texts, the strongest first, without hidden keys."""
    found = []
    for text, (pairs, (queries, seen)) in enumerate(zip(own, words, strict=True)):
        columns = (part[head].tolist() for part in pairs[:5])
        for weight, even, query, key, others in zip(*columns, strict=True):
            if math.isfinite(even):
                tokens = {QUERY_TOKEN: queries[query : query + 1], KEY_TOKEN: seen[key : key + 1]}
                named = {name: word[0] for name, word in tokens.items() if word}
                which = {"text": text} if len(own) > 1 else {}
                places = {"query": query, "key": key, **named, **which}
                found.append(
                    TokenPair(weight, even, max(0.0, others) if others == others else None, places)
                )
    return sorted(found, key=lambda pair: pair.even - pair.weight)


def build_token_pair_views(
    rows: Sequence[Row], places: Sequence[Mapping[str, Scalar]]
) -> Iterator[View]:
    """Heads side by side where they are few, else one below the other."""
    heads = {(row.layer, row.head) for row in rows if row.metric == PAIR and row.head is not None}
    title = "strongest query ← key pairs, each key once: weight (uniform attention)"
    few = len(heads) <= FEW
    down, across = ("rank", "layer.head") if few else ("layer.head", "rank")
    for where in places:
        kind = ", ".join(map(str, where.values()))
        named = f"{kind}: {title}" if kind else title
        yield View(named, down, (PAIR,), across, where, pair=(QUERY_TOKEN, KEY_TOKEN))


def describe_strongest_token_pair(rows: Sequence[Row]) -> str:
    """The pair furthest above uniform attention, unless its key is a sink; empty where there is
    none.

    The weight that the other queries give the key counts like uniform attention: above a sink no
    query is exceptional.
    """
    pairs = [row for row in rows if row.metric == PAIR and row.value is not None]
    if not pairs:
        return ""
    top = max(pairs, key=lambda row: (row.value or 0.0) - strongest_control_weight(row))
    if f"{top.value:.2g}" == f"{strongest_control_weight(top):.2g}" or (
        (top.value or 0.0) < strongest_control_weight(top)
    ):
        return "no pair stands out from uniform attention and from what other queries give its key"
    others = f", other queries {float(top.keys[OTHERS]):.2g}" if OTHERS in top.keys else ""
    return (
        f"clearest pair '{format_token_position(top, QUERY_TOKEN)} ← {format_token_position(top, KEY_TOKEN)}' in head {format_layer_and_head(top)}: "
        f"{top.value:.2g}; uniform attention {float(top.keys[UNIFORM]):.2g}{others}"
    )


def strongest_control_weight(row: Row) -> float:
    return max(float(row.keys[UNIFORM]), float(row.keys.get(OTHERS, 0.0)))
