"""Measured: how often gates by chance and in standard deviations fail for nothing, and how often they find disturbed heads.

Run: python tests/bench/changes.py MODEL TEXTS [SPLITS PERTURBATIONS]     a folder of a BERT, and a file of paragraphs

One run over 64 texts gives every split: n texts against n others of the same model (not paired, for they are other texts), and
the same as if they were the same texts, which is what pairing makes of noise alone. A perturbation adds noise of half their
standard deviation to the queries and keys of three heads, and is measured on 32 of the texts: on the first n of these against
the undisturbed model, on the same texts (paired) and on others.
"""

import dataclasses
import random
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from transformers import AutoModel, AutoTokenizer

import attncli as attn
from attncli.gates.baseline_changes import decide_baseline_gates, parse_allowed_change
from attncli.maths.significance_tests import standard_deviation
from attncli.records import Report, Row

METRIC = "sink"
SIZES = (2, 3, 4, 8, 16, 32)
TEXTS, TOKENS, DISTURBED = 2 * max(SIZES), 96, 3
GATES = ("p.05", "2s")
FAMILY = 0.05

Head = tuple[int, int]


def of_texts(report: Report, places: Sequence[int], same: bool = False) -> Report:
    """The report as it would be of these texts alone; `same`: as if all such reports were of the same ones."""
    rows = tuple(of_row(row, places) for row in report.rows if row.metric == METRIC)
    shown = [report.input["texts"][place] for place in places]
    named = [{"sha256": str(n)} for n in range(len(shown))] if same else shown
    return dataclasses.replace(report, rows=rows, input={"texts": named})


def of_row(row: Row, places: Sequence[int]) -> Row:
    each = tuple(row.each[place] for place in places)
    mean = sum(each) / len(each)
    return dataclasses.replace(
        row, value=mean, each=each, n=len(each), spread=standard_deviation(each, mean)
    )


def fails(old: Report, new: Report, limit: str) -> bool:
    return decide_baseline_gates(new, old, [parse_allowed_change(f"{METRIC}:{limit}")], "old")[
        0
    ].failed


def false_alarms(report: Report, size: int, count: int, same: bool) -> Iterator[float]:
    """Of gates on every head of one model, the share of splits in which each fails."""
    halves = [random.Random(turn).sample(range(TEXTS), 2 * size) for turn in range(count)]
    pairs = [
        [of_texts(report, part, same) for part in (half[:size], half[size:])] for half in halves
    ]
    for limit in GATES:
        yield sum(fails(old, new, limit) for old, new in pairs) / count


def disturb(model: Any, heads: Sequence[Head], seed: int) -> list[tuple[Any, Any]]:
    """Add noise to the queries and keys of these heads; returns what undoes it."""
    import torch

    width = model.config.hidden_size // model.config.num_attention_heads
    chance, kept = torch.Generator().manual_seed(seed), []
    for layer, head in heads:
        attention = model.encoder.layer[layer].attention.self
        for weight in (attention.query.weight, attention.key.weight):
            rows = weight.data[head * width : (head + 1) * width]
            kept.append((rows, rows.clone()))
            rows += 0.5 * rows.std() * torch.randn(rows.shape, generator=chance)
    return kept


def found_heads(old: Report, new: Report, heads: Sequence[Head], limit: str) -> int:
    """Of the disturbed heads, those that the gate over all heads counts; a limit by chance is corrected for all of them."""
    places = sorted((row.layer or 0, row.head or 0) for row in old.rows)
    gates = [parse_allowed_change(f"{METRIC}[layer={x},head={y}]:{limit}") for x, y in places]
    share = FAMILY if limit.startswith("p") else None
    verdicts = decide_baseline_gates(new, old, gates, "old", share)
    return sum(verdicts[places.index(head)].failed for head in heads)


def print_false_alarms(whole: Report, count: int) -> None:
    for size in SIZES:
        for same in (False, True):
            rates = zip(GATES, false_alarms(whole, size, count, same), strict=True)
            said = ", ".join(f"{limit} {rate:.1%}" for limit, rate in rates)
            print(
                f"n = {size:2}, {'as if paired' if same else 'other texts '}: fails for nothing: {said}",
                flush=True,
            )


def found_at(size: int, whole: Report, new: Report, heads: Sequence[Head]) -> Iterator[int]:
    """On the same texts and on others, by each gate."""
    some = of_texts(new, range(size))
    for others in (range(size), range(TEXTS // 2, TEXTS // 2 + size)):
        yield from (found_heads(of_texts(whole, others), some, heads, limit) for limit in GATES)


def main() -> int:
    folder, file, *counts = sys.argv[1:]
    split_count, turns = map(int, counts or ("200", "20"))
    paragraphs = [p for p in Path(file).read_text().split("\n\n") if len(p) > 400][:TEXTS]
    model, tokenizer = AutoModel.from_pretrained(folder), AutoTokenizer.from_pretrained(folder)
    ask: dict[str, Any] = {"tokenizer": tokenizer, "metric": METRIC, "tokens": TOKENS}
    whole = attn.inspect_model(model, text=paragraphs, **ask)
    print_false_alarms(whole, split_count)
    places = sorted((row.layer or 0, row.head or 0) for row in of_texts(whole, [0, 1]).rows)
    totals = {size: [0] * 2 * len(GATES) for size in SIZES}
    for turn in range(turns):
        heads = random.Random(turn).sample(places, DISTURBED)
        kept = disturb(model, heads, turn)
        new = attn.inspect_model(model, text=paragraphs[: TEXTS // 2], **ask)
        for rows, before in kept:
            rows.copy_(before)
        for size, total in totals.items():
            found = found_at(size, whole, new, heads)
            totals[size] = [a + b for a, b in zip(total, found, strict=True)]
    names = [f"{limit}, {way}" for way in ("paired", "other texts") for limit in GATES]
    for size, total in totals.items():
        said = ", ".join(
            f"{name} {one / (turns * DISTURBED):.0%}"
            for name, one in zip(names, total, strict=True)
        )
        print(f"n = {size:2}: of {turns * DISTURBED} disturbed heads found: {said}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
