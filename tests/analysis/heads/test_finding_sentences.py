"""Every sentence of the findings against the rows, by a reader of its own: over all choices of metrics and many models.

Numbers are drawn at random, around every threshold, some of them missing; a sentence may use only what is there.
"""

import math
import random
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from itertools import chain, combinations

import pytest

import attncli as attn
from attncli.analysis.heads.classification.head_and_outlier_findings import build_findings
from attncli.analysis.heads.classification.head_roles import (
    ClassifiedHead,
    classify_heads,
    format_role_counts,
)
from attncli.analysis.heads.report_rows.extreme_heads import (
    describe_extreme_heads,
    describe_first_and_last_states,
)
from attncli.records import Row, Scalar

LAYERS, HEADS, MODELS = 3, 5, 24
Numbers = Mapping[str, Mapping[str, float]]
"""By metric and head, `1.2`: what was measured."""

ON_DRAWS = ("induction", "previous_token", "duplicate_token")
OF_HEADS = ("sink_max", "sink", "entropy_normalised", "head_contribution", "virtual_sink", "self_attention", *ON_DRAWS)  # fmt: skip
OF_STATES = ("max_activation", "token_cosine_gap")
NULL = {"sink_max": 0.08, "sink": 0.08, "head_contribution": 1 / HEADS, "self_attention": 0.08, "induction": 0.02, "previous_token": 0.02, "duplicate_token": 0.02}  # fmt: skip
CLEAR = {"sink_max": 0.3, "self_attention": 0.5, "induction": 0.4, "previous_token": 0.5, "duplicate_token": 0.3}  # fmt: skip
ROLES = {"previous-token": "previous_token", "induction": "induction", "duplicate": "duplicate_token", "self": "self_attention"}  # fmt: skip


def head_row(metric: str, layer: int, head: int, draw: random.Random, dull: bool) -> Row:
    """Near a threshold, or far from all; of what is drawn a number for each draw."""
    middle = CLEAR.get(metric, 0.95 if metric == "entropy_normalised" else 0.02)
    value = max(0.001, middle * draw.uniform(0.2, 1.8 if middle < 0.55 else 1 / middle))
    if dull:
        value = 0.5 if metric == "entropy_normalised" else 0.1
    keys: dict[str, Scalar] = {"uniform": NULL[metric]} if metric in NULL else {}
    if draw.random() < 0.5:
        keys["random_init"] = draw.random()
    if draw.random() < 0.2:
        return Row(metric, None, "1", layer=layer, head=head, note="n/a: so it is")
    if metric not in ON_DRAWS:
        return Row(metric, value, "1", layer=layer, head=head, keys=keys)
    each = tuple(value * factor for factor in (0.8, 0.9, 1.1, 1.2))
    return Row(metric, value, "1", layer=layer, head=head, keys=keys, spread=value * math.sqrt(0.1 / 3), n=4, each=each)  # fmt: skip


@cache
def model(seed: int) -> list[Row]:
    """All numbers of one; of every fifth nothing stands out."""
    draw, dull = random.Random(seed), seed % 5 == 0
    first = [draw.choice([True, False]) for _ in range(LAYERS * HEADS)]
    rows = []
    for metric in OF_HEADS:
        for place in range(LAYERS * HEADS):
            row = head_row(metric, *divmod(place, HEADS), draw, dull)
            if metric == "sink" and first[place]:  # the token that takes most is the first
                of_max = next(r for r in rows if (r.metric, r.layer, r.head) == ("sink_max", row.layer, row.head))  # fmt: skip
                row = Row("sink", of_max.value, "1", layer=row.layer, head=row.head, note=of_max.note, keys={"uniform": 0.08})  # fmt: skip
            rows.append(row)
    for layer in range(LAYERS + 1):
        keys = {"token": 0, "feature": 3, "over_median": draw.choice([2000.0, 500.0])}
        rows.append(
            Row(
                "max_activation",
                50.0 if dull else draw.choice([50.0, 5000.0]),
                "1",
                layer=layer,
                keys=keys,
            )
        )
        rows.append(
            Row("token_cosine_gap", 0.8 if dull else draw.choice([0.01, 0.8]), "1", layer=layer)
        )
    return rows


def rows_of(metrics: Sequence[str], seed: int) -> list[Row]:
    return [row for row in model(seed) if row.metric in metrics]


def measured(rows: Sequence[Row]) -> Numbers:
    found: dict[str, dict[str, float]] = {}
    for row in rows:
        if row.value is not None and row.head is not None:
            found.setdefault(row.metric, {})[f"{row.layer}.{row.head}"] = row.value
    return found


def is_clear(metric: str, value: float) -> bool:
    null = NULL[metric]
    return value > null and value >= max(CLEAR[metric], min(2 * null, (1 + null) / 2))


def named(text: str) -> dict[str, float]:
    """`4.5 (0.55 ± 0.03), 4.8 (51 %)` as numbers."""
    found = re.findall(r"(\d+\.\d+) \((\d*\.?\d+)(?: ± [\d.]+)?( %)?\)", text)
    return {head: float(value) / (100 if percent else 1) for head, value, percent in found}


def check_named(text: str, metric: str, wanted: Sequence[str], numbers: Numbers) -> None:
    """All up to eight, else the three strongest; each with its own number."""
    shown = named(text)
    ordered = sorted(wanted, key=lambda head: -numbers[metric][head])
    assert set(shown) == set(ordered[: 3 if len(ordered) > 8 else 8])
    for head, value in shown.items():
        assert value == pytest.approx(numbers[metric][head], abs=0.0051)


def check_sinks(text: str, numbers: Numbers, rows: Sequence[Row]) -> None:
    found = [head for head, value in numbers["sink_max"].items() if is_clear("sink_max", value)]
    assert text.startswith(f"{len(found)} of {len(numbers['sink_max'])} head")
    known = all(head in numbers.get("sink", {}) for head in found)
    first = sum(math.isclose(numbers["sink"][head], numbers["sink_max"][head]) for head in found) if known else None  # fmt: skip
    told = re.search(r"always token 0|never token 0|, token 0|(\d+) of them on token 0", text)
    assert (told is not None) == known
    if told is not None and told[1] is None:
        assert first == (0 if told[0].startswith("never") else len(found))
    elif told is not None:
        assert first == int(told[1])
    check_named(text, "sink_max", found, numbers)
    assert "uniform attention: 8 %" in text
    check_random(text, "sink_max", rows, lambda value: is_clear("sink_max", value))


def check_counted_elsewhere(text: str, found: Sequence[str], heads: Sequence[ClassifiedHead], role: str) -> None:  # fmt: skip
    """The finding and the first line together account for each head once."""
    others = Counter(head.role.name for head in heads if head.name in found and head.role and head.role.name != role)  # fmt: skip
    told = re.search(r"the first line counts (.*?)(;|$)", text)
    assert (told is not None) == bool(others)
    if told is not None:
        counts = re.findall(r"(\d+)(?: of them)? as ([^,]+)", told[1])
        assert {name: int(count) for count, name in counts} == others


def check_random(text: str, metric: str, rows: Sequence[Row], shows: Callable[[float], bool]) -> None:  # fmt: skip
    """How many heads show the same with random weights, of those of which that is known."""
    known = [row.keys["random_init"] for row in rows if row.metric == metric and row.value is not None and "random_init" in row.keys]  # fmt: skip
    told = re.search(r"random weights: (\d+) head", text)
    assert (told is not None) == bool(known)
    if told is not None:
        assert int(told[1]) == sum(shows(float(value)) for value in known)


def check_uniform(text: str, numbers: Numbers, rows: Sequence[Row]) -> None:
    metric = "entropy_normalised"
    found = [head for head, value in numbers[metric].items() if value >= 0.95]
    assert text.startswith(f"{len(found)} of {len(numbers[metric])} head")
    check_named(text, metric, found, numbers)
    check_random(text, metric, rows, lambda value: value >= 0.95)


def check_idle(text: str, numbers: Numbers, rows: Sequence[Row]) -> None:
    own = numbers["head_contribution"]
    found = sorted((value, head) for head, value in own.items() if value < 0.1 / HEADS)
    assert text.startswith(f"{len(found)} of {len(own)} head")
    assert {head for _, head in found[: 3 if len(found) > 8 else 8]} == set(named(text))
    assert f"equal share: {1 / HEADS:.4f}" in text


def check_learned(text: str, numbers: Numbers, rows: Sequence[Row]) -> None:
    own = numbers["virtual_sink"]
    (mean, count) = re.findall(r"take ([\d.]+) % .* over (\d+) head", text)[0]
    assert int(count) == len(own)
    assert float(mean) / 100 == pytest.approx(sum(own.values()) / len(own), rel=0.06)
    (top,) = named(text)
    assert own[top] == max(own.values())


def check_role(name: str) -> Callable[[str, Numbers, Sequence[Row]], None]:
    metric = ROLES[name]

    def check(text: str, numbers: Numbers, rows: Sequence[Row]) -> None:
        """What is clear on every draw and what is so on some, counted apart."""
        draws = {f"{row.layer}.{row.head}": row.each or (row.value,) for row in rows if row.metric == metric and row.value is not None}  # fmt: skip
        told = re.match(r"(?:(\d+): (.*?)(?:; (?=\d+ on some)|; uniform|$))?(?:(\d+) on some of 4 draws only: (.*))?", text)  # fmt: skip
        assert told is not None
        sure, some = named(told[2] or ""), named(told[4] or "")
        assert set(sure).isdisjoint(some)
        assert int(told[1] or 0) >= len(sure)
        for head in sure:
            assert all(is_clear(metric, value or 0.0) for value in draws[head])
        for head in some:
            assert any(is_clear(metric, value or 0.0) for value in draws[head])
            assert metric in ON_DRAWS

    return check


def check_nothing(text: str, numbers: Numbers, rows: Sequence[Row]) -> None:
    """What is said not to be there was measured, and is not there."""
    words = {"sinks": "sink_max", "uniform heads": "entropy_normalised", "idle heads": "head_contribution"}  # fmt: skip
    for clause in text.split("; "):
        told = re.fullmatch(r"no (.+) in the (\d+) heads? of layers? [\d, -]+", clause)
        if told is None:
            metric = {"no massive activations after any layer": "max_activation", "no collapsed state at the end": "token_cosine_gap"}[clause]  # fmt: skip
            assert any(row.metric == metric for row in rows)
            continue
        for kind in told[1].split(" or "):
            assert len(numbers[words[kind]]) == int(told[2])


def check_massive(text: str, numbers: Numbers, rows: Sequence[Row]) -> None:
    found = [row.layer or 0 for row in rows if row.metric == "max_activation" and (row.value or 0.0) > 100 and float(row.keys["over_median"]) > 1000]  # fmt: skip
    told = re.match(r"after layers? ([\d, -]+);", text)
    assert told is not None
    parts = [part.split("-") for part in told[1].split(", ")]
    assert found == [layer for part in parts for layer in range(int(part[0]), int(part[-1]) + 1)]


def check_smoothed(text: str, numbers: Numbers, rows: Sequence[Row]) -> None:
    gaps = [row for row in rows if row.metric == "token_cosine_gap"]
    assert f"1 - cosine {gaps[-1].value:.5f} after layer {gaps[-1].layer}" in text


CHECKS: Mapping[str, Callable[[str, Numbers, Sequence[Row]], None]] = {
    "sinks": check_sinks,
    "uniform heads": check_uniform,
    "idle heads": check_idle,
    "learned sinks": check_learned,
    "nothing": check_nothing,
    "massive activations": check_massive,
    "over-smoothing": check_smoothed,
    **{f"{name} heads": check_role(name) for name in ROLES},
}


def choices() -> Iterator[tuple[str, ...]]:
    """Every subset of the metrics."""
    every = (*OF_HEADS, *OF_STATES)
    return chain.from_iterable(combinations(every, size) for size in range(len(every) + 1))


@pytest.mark.slow
def test_every_sentence_is_that_of_its_rows() -> None:
    told: Counter[str] = Counter()
    for seed, metrics in enumerate(choices()):
        rows = rows_of(metrics, seed % MODELS)
        heads = classify_heads(rows, ON_DRAWS)
        numbers = measured(rows)
        for finding in build_findings(rows, heads, [["<s>", "dog"]]):
            told[finding.about] += 1
            CHECKS[finding.about](finding.text, numbers, rows)
            if finding.about in ("sinks", "uniform heads"):
                metric, least, role = ("sink_max", None, "sink") if finding.about == "sinks" else ("entropy_normalised", 0.95, "uniform")  # fmt: skip
                found = [head for head, value in numbers[metric].items() if (value >= least if least else is_clear(metric, value))]  # fmt: skip
                check_counted_elsewhere(finding.text, found, heads, role)
            assert set(finding.heads) == set(named(finding.text))
    assert set(told) == set(CHECKS)
    assert min(told.values()) >= 50


def test_the_first_line_counts_each_head_once() -> None:
    for seed in range(20):
        heads = classify_heads(rows_of(OF_HEADS, seed), ON_DRAWS)
        counts = re.findall(r"(\d+) ", format_role_counts(heads, LAYERS * HEADS + 2))
        assert sum(map(int, counts)) == LAYERS * HEADS + 2


@pytest.mark.slow
def test_what_is_sampled_says_how_far_it_may_be_off() -> None:
    """Every number that is a mean over texts or draws has its standard deviation and how many they are; roles too."""
    texts = ["3,4,5,6,7,8,9,10", "12,9,7,5,3,4,6,8", "5,5,6,7,3,3,2,9"]
    for metric in (["all"], []):
        report = attn.inspect_model("random:gpt2?tiny&layers=2", token_ids=texts, metric=metric)
        for row in report.rows:
            if row.value is None:
                continue
            assert row.n in (3, 8), row
            assert row.spread is not None, row
            assert len(row.each) == row.n, row
        assert {row.n for row in report.rows if row.metric == "induction"} == {8}
        for finding in report.findings:
            for numbers in re.findall(r"\d+\.\d+ \(([^)]*)\)", finding.text):
                assert "±" in numbers, finding.text


def test_the_first_line_has_the_standard_deviations_of_what_it_ranks() -> None:
    rows = [Row("entropy", 1.0 + head, "1", layer=0, head=head, spread=0.125, n=3) for head in range(3)]  # fmt: skip
    assert describe_extreme_heads(rows) == "entropy from 1 ± 0.1 in head 0.0 to 3 ± 0.1 in head 0.2"


def test_where_states_alone_are_measured_the_first_line_tells_the_first_and_the_last() -> None:
    """Not of several stacks, where one layer has two numbers."""
    rows = [Row("max_activation", 0.5 * layer, "1", layer=layer) for layer in (0, 1, 2)]
    text = "max_activation 0 after layer 0, 1 after layer 2"
    assert describe_first_and_last_states(rows) == text
    assert describe_first_and_last_states([*rows, *rows]) == ""
    rows[1] = replace(rows[1], value=52.0)
    text = "max_activation 0 after layer 0, up to 52 after layer 1, 1 after layer 2"
    assert describe_first_and_last_states(rows) == text
