"""What the accuracies of sums of paths mean, and what they say: do short paths carry more than long ones?"""

import math
from collections.abc import Iterator, Mapping, Sequence

from attncli.maths.digits import with_spread
from attncli.records import Definition, Row

ACCURACY, UP_TO, ADVANTAGE = "accuracy", "accuracy_up_to", "short_minus_long"

OWN_METRICS: Mapping[str, Definition] = {
    ACCURACY: Definition(
        "1",
        "Part of the tokens labelled right by the sum of so many random paths of a length (mean over the draws), through "
        "the classifier. frozen: Σ P X W with the attention and norm denominators of the full pass, without the network's "
        "constants; 'frozen all': every path of the length, with the constants that pass so many heads. rerun: Σ of "
        "sub-networks as published, LN(one head) in the layers of a path and nothing else, attention computed anew, "
        "the sum normalised.",
    ),
    UP_TO: Definition(
        "1", "The same of all frozen paths up to a length together, with the network's constants."
    ),
    ADVANTAGE: Definition(
        "1",
        "Mean accuracy of the shorter half of the lengths from 1 on minus that of the longer half.",
    ),
    "completeness_error": Definition(
        "1",
        "Largest ‖Y - Σ_k T_k‖_F / ‖Y‖_F of a sequence: the frozen paths of all lengths are the output.",
    ),
}

ENTIRE, MAJORITY, MAJORITY_OF_PLACE = "entire model", "majority label", "majority label of place"

EVALUATIONS = {"frozen": "frozen", "rerun": "run again"}
"""And in words."""

CLEAR = 2.0
"""Standard errors from which a mean difference over seeds is called one."""

LEARNED = 0.9
"""The accuracy below which a network has not learned enough for its paths to say much."""


def short_minus_long(by_length: Mapping[int, float]) -> float:
    """Of lengths from 1 on, two at least; with an odd number of them the middle one is on neither side."""
    lengths = sorted(by_length)[1:]
    half = len(lengths) // 2
    apart = (
        by_length[k] - by_length[j] for k, j in zip(lengths[:half], lengths[-half:], strict=True)
    )
    return math.fsum(apart) / half


def headline(
    name: str, rows: Sequence[Row], evaluations: Sequence[str], numbers: Sequence[int]
) -> str:
    """The answer, with the most paths, beside the entire model and a predictor that does not look."""
    variants = {EVALUATIONS[one]: f"{one} {max(numbers)}" for one in evaluations}
    return (
        f"{name}: {claim(rows, variants)}{rates(rows, variants, max(numbers))}; "
        f"the entire model {percents(beside(rows, ENTIRE))}, "
        f"always the most frequent label of the place {percents(beside(rows, MAJORITY_OF_PLACE))}."
    )


def claim(rows: Sequence[Row], variants: Mapping[str, str]) -> str:
    """Once where the evaluations agree; nothing where there is one length."""
    found = {row.variant: compared(row) for row in rows if row.metric == ADVANTAGE}
    if not found:
        return ""
    words = [f"short paths carry {found[variant]} long ones" for variant in variants.values()]
    if len(set(words)) == 1:
        return f"{words[0]}. "
    parts = [f"{how}, {said}" for how, said in zip(variants, words, strict=True)]
    return f"{'; '.join(parts)}. "


def compared(advantage: Row) -> str:
    """In words: clearly so where there are several seeds."""
    value = advantage.value or 0.0
    error = (advantage.spread or 0.0) / math.sqrt(advantage.n)
    if abs(value) <= CLEAR * error:
        return "no more than"
    return "more than" if value > 0 else "less than"


def rates(rows: Sequence[Row], variants: Mapping[str, str], number: int) -> str:
    """Of the shortest paths with a head and of the longest ones."""
    accuracies = [row for row in rows if row.metric == ACCURACY and "length" in row.keys]
    longest = max(int(row.keys["length"]) for row in accuracies)
    ends = sorted({1, longest})
    lengths = " and ".join(map(str, ends))
    parts = []
    for how, variant in variants.items():
        own = {row.keys["length"]: percents(row) for row in accuracies if row.variant == variant}
        parts.append(f"{how} {' and '.join(own[length] for length in ends)}")
    paths = "paths" if number > 1 else "path"
    return f"{number} {paths} of length {lengths} label {', '.join(parts)} of the tokens right"


def beside(rows: Sequence[Row], name: str) -> Row:
    return next(row for row in rows if row.variant == name)


def percents(row: Row) -> str:
    """`68 ± 13 %`"""
    value = 100.0 * (row.value or 0.0)
    return f"{value:.3g} %" if row.spread is None else f"{with_spread(value, 100.0 * row.spread)} %"


def warnings(rows: Sequence[Row]) -> Iterator[str]:
    entire = beside(rows, ENTIRE)
    if (entire.value or 0.0) < LEARNED:
        yield (
            f"the entire model labels only {percents(entire)}: it has not learned its task and its paths say little; "
            "train it longer with --train-steps"
        )
