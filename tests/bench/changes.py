"""Measured: how often gates in spreads cry for nothing, and how often they find heads that were disturbed.

Run: python tests/bench/changes.py MODEL TEXTS [SPLITS PERTURBATIONS]     a folder of a BERT, and a file of paragraphs

One run over 16 texts gives every split: 8 texts against the other 8 of the same model (not paired, for they are other
texts), and the same 8 against 8 as if they were the same texts, which is what pairing makes of noise alone. A perturbation
adds noise of half their standard deviation to the queries and keys of three heads, and is measured on the same 8 texts.
"""

import dataclasses
import random
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModel, AutoTokenizer

import attncli as attn
from attncli.gates import decide_changes, parse_change
from attncli.maths.noise import spread
from attncli.records import Report, Row
from attncli.reports import side_by_side

METRICS = ("sink", "entropy")
TEXTS, HALF, TOKENS, DISTURBED = 16, 8, 96, 3
FAMILY = 0.05
WAYS = {
    "2s, not paired": (False, "2s", None),
    "2s, paired": (True, "2s", None),
    "2s, paired, family-wise": (True, "2s", FAMILY),
    "1s, paired, family-wise": (True, "1s", FAMILY),
    "0s, paired, family-wise": (True, "0s", FAMILY),
}
"""Paired or not, the limit, and how often noise alone may fail any of all gates."""


def of_texts(report: Report, places: Sequence[int], same: bool = False) -> Report:
    """The report as it would be of these texts alone; `same`: as if all such reports were of the same ones."""
    rows = tuple(of_row(row, places) for row in report.rows if len(row.each) == TEXTS)
    shown = [report.input["texts"][place] for place in places]
    named = [{"sha256": str(n)} for n in range(len(shown))] if same else shown
    return dataclasses.replace(report, rows=rows, input={"texts": named})


def of_row(row: Row, places: Sequence[int]) -> Row:
    each = tuple(row.each[place] for place in places)
    mean = sum(each) / len(each)
    return dataclasses.replace(row, value=mean, each=each, n=len(each), spread=spread(each, mean))


def beyond(old: Report, new: Report) -> tuple[int, int]:
    """Numbers beyond 2 spreads, and how many there are."""
    pairs = [pair for pair in side_by_side(old, new) if pair.in_spreads is not None]
    return sum(abs(pair.in_spreads or 0.0) > 2 for pair in pairs), len(pairs)


def fails(old: Report, new: Report, limit: str) -> bool:
    gates = [parse_change(f"{metric}:{limit}") for metric in METRICS]
    return any(v.failed for v in decide_changes(new, old, gates, "old", FAMILY))


def splits(report: Report, count: int, same: bool) -> str:
    found, asked, gates, family = 0, 0, 0, {"2s": 0, "0s": 0}
    for turn in range(count):
        places = random.Random(turn).sample(range(TEXTS), TEXTS)
        old, new = (of_texts(report, half, same) for half in (places[:HALF], places[HALF:]))
        far, numbers = beyond(old, new)
        found, asked, gates = found + far, asked + numbers, gates + bool(far)
        family = {limit: count + fails(old, new, limit) for limit, count in family.items()}
    return f"{found} of {asked} numbers beyond 2 s; gates failed in {gates} of {count}, family-wise {FAMILY:g}: in {family}"


def disturbed(model: Any, heads: Sequence[tuple[int, int]], seed: int) -> Any:
    """Noise of half their deviation on the queries and keys of these heads; returns what undoes it."""
    width = model.config.hidden_size // model.config.num_attention_heads
    chance, kept = torch.Generator().manual_seed(seed), []
    for layer, head in heads:
        attention = model.encoder.layer[layer].attention.self
        for weight in (attention.query.weight, attention.key.weight):
            rows = weight.data[head * width : (head + 1) * width]
            kept.append((rows, rows.clone()))
            rows += 0.5 * rows.std() * torch.randn(rows.shape, generator=chance)
    return kept


def found_heads(
    old: Report,
    new: Report,
    heads: Sequence[tuple[int, int]],
    limit: str,
    share: float | None = None,
) -> int:
    """Of the disturbed heads, those with a number that fails its gate; every head of the model has its gates."""
    places = sorted({(row.layer, row.head) for row in old.rows})
    gates = [parse_change(f"{m}[layer={x},head={y}]:{limit}") for x, y in places for m in METRICS]
    failed = [v.failed for v in decide_changes(new, old, gates, "old", share)]
    at = [places.index(head) * len(METRICS) for head in heads]
    return sum(any(failed[i : i + len(METRICS)]) for i in at)


def main() -> int:
    folder, file, *counts = sys.argv[1:]
    split_count, turns = map(int, counts or ("200", "20"))
    paragraphs = [p for p in Path(file).read_text().split("\n\n") if len(p) > 400][:TEXTS]
    model, tokenizer = AutoModel.from_pretrained(folder), AutoTokenizer.from_pretrained(folder)
    ask: dict[str, Any] = {"tokenizer": tokenizer, "metric": METRICS, "tokens": TOKENS}
    whole = attn.inspect_model(model, text=paragraphs, **ask)
    print(f"{split_count} splits, not paired:    {splits(whole, split_count, same=False)}")
    print(f"{split_count} splits, as if paired:  {splits(whole, split_count, same=True)}")
    old = of_texts(whole, range(HALF))
    places = [(x, y) for x in range(model.config.num_hidden_layers) for y in range(model.config.num_attention_heads)]  # fmt: skip
    totals = [0] * len(WAYS)
    for turn in range(turns):
        heads = random.Random(turn).sample(places, DISTURBED)
        kept = disturbed(model, heads, turn)
        new = attn.inspect_model(model, text=paragraphs[:HALF], **ask)
        for rows, before in kept:
            rows.copy_(before)
        blind = dataclasses.replace(old, input={})
        found = [
            found_heads(old if paired else blind, new, heads, limit, share)
            for paired, limit, share in WAYS.values()
        ]
        totals = [total + one for total, one in zip(totals, found, strict=True)]
        print(f"turn {turn}: heads {heads}: {found} of {DISTURBED}", flush=True)
    every = turns * DISTURBED
    for name, total in zip(WAYS, totals, strict=True):
        print(f"found {total} of {every}: {name}")
    return int(totals[-1] <= totals[0])


if __name__ == "__main__":
    sys.exit(main())
