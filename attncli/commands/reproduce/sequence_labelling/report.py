"""Metrics and sentences about the accuracy of sums of paths: do short paths contribute more than
long ones?"""

import math
from collections.abc import Iterator, Mapping, Sequence

from attncli.maths.number_format import format_with_standard_deviation
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
BLIND = {
    MAJORITY: "the most frequent label",
    MAJORITY_OF_PLACE: "the most frequent label of the position",
}
"""Predictors that ignore the input, and the label that each predicts."""

EVALUATIONS = ("frozen", "rerun")

CLEAR = 2.0
"""Standard errors from which a mean difference over seeds is called one."""

LEARNED = 0.9
"""Accuracy below which a network has not learned enough for its paths to be informative."""


def short_minus_long_path_accuracy(by_length: Mapping[int, float]) -> float:
    """Short minus long, of at least two lengths from 1 on; the middle one of an odd number is on
    neither side."""
    lengths = sorted(by_length)[1:]
    half = len(lengths) // 2
    distance = (
        by_length[k] - by_length[j] for k, j in zip(lengths[:half], lengths[-half:], strict=True)
    )
    return math.fsum(distance) / half


def format_path_accuracy_headline(
    name: str, rows: Sequence[Row], evaluations: Sequence[str], numbers: Sequence[int]
) -> str:
    """The result with the most paths, next to the entire model and a predictor that ignores the
    input."""
    variants = {one: f"{one} {max(numbers)}" for one in evaluations}
    blind = find_best_majority_baseline(rows)
    return (
        f"{name}: {describe_short_against_long_paths(rows, variants, max(numbers))}tokens labelled right by {describe_shortest_and_longest_accuracies(rows, variants, max(numbers))}; "
        f"by the entire model: {format_percent(find_report_row_of_variant(rows, ENTIRE))}; "
        f"by always guessing {BLIND[str(blind.variant)]}: {format_percent(blind)}."
    )


def find_best_majority_baseline(rows: Sequence[Row]) -> Row:
    """The better of the predictors that ignore the input; that of the positions on a tie."""
    found = [row for row in rows if row.variant in BLIND and row.metric == ACCURACY]
    return max(found, key=lambda row: (row.value or 0.0, row.variant == MAJORITY_OF_PLACE))


def describe_short_against_long_paths(
    rows: Sequence[Row], variants: Mapping[str, str], number: int
) -> str:
    """Describe short against long paths, once where the evaluations agree; empty where there is one
    length."""
    found = {row.variant: row for row in rows if row.metric == ADVANTAGE}
    if not found:
        return ""
    words = [
        describe_accuracies_by_path_length(rows, found[variant], variant, number)
        for variant in variants.values()
    ]
    together = (
        f"; {describe_sufficient_path_length(rows)}"
        if describe_sufficient_path_length(rows)
        else ""
    )
    if len(set(words)) == 1:
        return f"{words[0]}{together}; "
    parts = [f"{how}: {one}" for how, one in zip(variants, words, strict=True)]
    return f"{', '.join(parts)}{together}; "


def describe_accuracies_by_path_length(
    rows: Sequence[Row], advantage: Row, variant: str, number: int
) -> str:
    """Describe the accuracy of sums of paths of one length; claim nothing of sums that blind
    guessing beats.

    Short paths carry more only where short ones themselves beat it, and as all paths up to their lengths together do,
    if these were measured; long ones likewise.
    """
    of = {
        int(row.keys["length"]): row
        for row in rows
        if row.metric == ACCURACY and row.variant == variant and "length" in row.keys
    }
    lengths = sorted(of)[1:]
    half = len(lengths) // 2
    blind = find_best_majority_baseline(rows)
    short, long = (
        any(is_accuracy_significantly_above(of[k], blind) for k in part)
        for part in (lengths[:half], lengths[-half:])
    )
    if not any(is_accuracy_significantly_above(of[k], blind) for k in lengths):
        return (
            f"no {format_path_sum_size(number)} beats always guessing {BLIND[str(blind.variant)]}"
        )
    way = describe_short_path_advantage(advantage)
    if (
        way == "more than"
        and short
        and (not variant.startswith("frozen") or do_paths_of_length_beat_majority(rows, half))
    ):
        return "short paths carry more than long ones"
    if way == "less than" and long:
        return "short paths carry less than long ones"
    return "short paths carry no more than long ones"


def is_accuracy_significantly_above(row: Row, blind: Row) -> bool:
    """By more than both spread over the seeds."""
    margin = math.hypot(row.spread or 0.0, blind.spread or 0.0)
    return (row.value or 0.0) - (blind.value or 0.0) > margin


def describe_short_path_advantage(advantage: Row) -> str:
    """In words: clearly so where there are several seeds."""
    value = advantage.value or 0.0
    error = (advantage.spread or 0.0) / math.sqrt(advantage.n)
    if abs(value) <= CLEAR * error:
        return "no more than"
    return "more than" if value > 0 else "less than"


def select_rows_of_cumulative_paths(rows: Sequence[Row]) -> dict[int, Row]:
    """All paths up to each length together."""
    return {int(row.keys["length"]): row for row in rows if row.metric == UP_TO}


def do_paths_of_length_beat_majority(rows: Sequence[Row], length: int) -> bool:
    """Whether all paths up to a length beat blind guessing; so it is taken where they were not measured."""
    found = select_rows_of_cumulative_paths(rows)
    return length not in found or is_accuracy_significantly_above(
        found[length], find_best_majority_baseline(rows)
    )


def describe_sufficient_path_length(rows: Sequence[Row]) -> str:
    """Up to which length all paths together are needed to beat blind guessing, where that is more than half of them."""
    found, blind = select_rows_of_cumulative_paths(rows), find_best_majority_baseline(rows)
    longest = max(found, default=0)
    first = next(
        (
            length
            for length in sorted(found)
            if is_accuracy_significantly_above(found[length], blind)
        ),
        None,
    )
    if first is None or 2 * first <= longest:
        return ""
    return f"it takes all paths up to length {first} (of {longest}) together to beat that guess"


def describe_shortest_and_longest_accuracies(
    rows: Sequence[Row], variants: Mapping[str, str], number: int
) -> str:
    """Of the shortest paths with a head and of the longest ones."""
    accuracies = [row for row in rows if row.metric == ACCURACY and "length" in row.keys]
    longest = max(int(row.keys["length"]) for row in accuracies)
    parts = []
    for length in sorted({1, longest}):
        own = {row.variant: row for row in accuracies if row.keys["length"] == length}
        shares = [f"{format_percent(own[variant])} ({how})" for how, variant in variants.items()]
        parts.append(f"{' and '.join(shares)} at length {length}")
    return f"a {format_path_sum_size(number)}: {', '.join(parts)}"


def format_path_sum_size(number: int) -> str:
    return f"sum of {number} random paths" if number > 1 else "single random path"


def find_report_row_of_variant(rows: Sequence[Row], name: str) -> Row:
    return next(row for row in rows if row.variant == name)


def format_percent(row: Row) -> str:
    """`68 ± 13 %`"""
    value = 100.0 * (row.value or 0.0)
    return (
        f"{value:.3g} %"
        if row.spread is None
        else f"{format_with_standard_deviation(value, 100.0 * row.spread)} %"
    )


def warn_if_task_not_learned(rows: Sequence[Row]) -> Iterator[str]:
    entire = find_report_row_of_variant(rows, ENTIRE)
    if (entire.value or 0.0) < LEARNED:
        yield (
            f"the entire model labels only {format_percent(entire)}: it has not learned its task and its paths say little; "
            "train it longer"
        )
