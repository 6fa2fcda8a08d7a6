"""`attn head-capacity MODEL --head 0.H --inputs embeddings`: patterns shown by real tokens, beside free inputs."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch

from attncli.analysis import Progress, no_progress
from attncli.analysis.fits.fit_rows import MEASURED, OUT_OF_RANGE
from attncli.analysis.heads.model_heads import HeadSubject
from attncli.analysis.layer_maps import maps_of
from attncli.commands.head_capacity.one_head.found_inputs import FoundInputs, ShownPattern
from attncli.commands.head_capacity.one_head.token_search import FoundTokens, best_tokens
from attncli.commands.head_capacity.one_head.token_table import (
    Array,
    TokenTable,
    of_text,
    token_table,
)
from attncli.commands.head_capacity.one_head.trained_head import REAL_METRICS, finite_row, in_words
from attncli.errors import AttnError, InputError
from attncli.fits._types import FitRequest
from attncli.fits._verify import Evidence, measure
from attncli.head_weights.head import Head
from attncli.maths.digits import number
from attncli.models.inputs.extra_inputs import WORDS
from attncli.models.inputs.tokenizing import shown, tokenizer_of
from attncli.models.loading.load import Checkpoint
from attncli.records import Finding, Report, Row, Scalar

METHOD = "tokens"
DIGITS = 1e-9
"""How far the model's own map may be from that of its weights, in total variation."""
MOST_WORDS = 12
"""Tokens that a finding names."""


@dataclass(frozen=True)
class ShownByTokens:
    """One pattern by the best text found."""

    pattern: str
    ids: tuple[int, ...]
    words: tuple[str, ...]
    evidence: Evidence
    free: float
    """Total variation of the worst row by free inputs, in float64."""
    candidates: int
    vocabulary: int

    @property
    def keys(self) -> dict[str, Scalar]:
        fit = f"{self.pattern} {METHOD}"
        return {"fit": fit, "pattern": self.pattern, "method": METHOD, "dtype": "float64"}

    def rows(self, request: FitRequest) -> Iterator[Row]:
        met = self.evidence.meets(replace(request, dtype="float64"))
        yield Row("meets", int(met), "0 or 1", keys=self.keys)
        for metric in MEASURED:
            yield finite_row(metric, getattr(self.evidence, metric), OUT_OF_RANGE, self.keys)
        for position, (token, word) in enumerate(zip(self.ids, self.words, strict=True)):
            keys = {**self.keys, "position": position, "token": word}
            yield Row("token_id", token, REAL_METRICS["token_id"].unit, keys=keys)

    def finding(self, request: FitRequest) -> Finding:
        told = in_words(ShownPattern("float64", np.zeros((0, 0)), self.evidence), request)
        text = " ".join(self.words[:MOST_WORDS]) + (" …" if len(self.words) > MOST_WORDS else "")
        return Finding(str(self.keys["fit"]), f"{told}; by: {text}")

    def in_words(self) -> str:
        found = number(self.evidence.total_variation)
        return f"{self.pattern}: total variation {found} by real tokens, {number(self.free)} by free inputs"


def with_real_inputs(
    report: Report,
    checkpoint: Checkpoint,
    subject: HeadSubject,
    head: Head,
    found: Sequence[FoundInputs],
    request: FitRequest,
    seeds: Sequence[int],
    progress: Progress = no_progress,
) -> Report:
    """The report of free inputs, and beside each pattern what the best text found makes of it."""
    tables: dict[int, TokenTable] = {}
    shown: list[ShownByTokens] = []
    for one in found:
        length = one.target.shape[0]
        if length not in tables:
            tables[length] = token_table(checkpoint, head, length, seeds[0], progress)
        shown.append(by_tokens(checkpoint, subject, head, one, tables[length], seeds, progress))
    name = f"{head.described['folder']}:{head.described['layer']}.{head.described['head']}"
    first = tables[found[0].target.shape[0]]
    drawn = (f"{len(first.ids):,} of {first.of:,} tokens were tried: a shorter length leaves room for more.",)  # fmt: skip
    return replace(
        report,
        headline=f"{name} by the model's own embeddings: {'; '.join(one.in_words() for one in shown)}.",
        rows=(*report.rows, *(row for one in shown for row in one.rows(request))),
        metrics={**report.metrics, **REAL_METRICS},
        input={**report.input, "candidates": len(first.ids), "vocabulary": first.of},
        findings=(*report.findings, *(one.finding(request) for one in shown)),
        warnings=(
            *report.warnings,
            *(drawn if len(first.ids) < 0.9 * first.of else ()),
            "tokens that were not found are not proved impossible: the search exchanges one token at a time.",
        ),
    )


def by_tokens(
    checkpoint: Checkpoint,
    subject: HeadSubject,
    head: Head,
    one: FoundInputs,
    table: TokenTable,
    seeds: Sequence[int],
    progress: Progress,
) -> ShownByTokens:
    assert one.attempt.fit is not None
    target: Array = one.target.toarray()
    queries, keys = np.split(one.attempt.fit.x.astype(np.float64), 2, axis=1)
    found: FoundTokens = best_tokens(table, target, head.causal, (queries, keys), seeds, progress)
    ids = tuple(int(each) for each in table.ids[found.chosen])
    evidence = measure(*of_text(checkpoint, head, ids), one.target, "float64", head.causal, 1.0)
    refuse_other_map(checkpoint, subject, head, ids, target, evidence)
    free = one.shown[0].evidence.total_variation
    words = tuple(words_of(checkpoint, ids))
    return ShownByTokens(one.pattern, ids, words, evidence, free, len(table.ids), table.of)


def refuse_other_map(
    checkpoint: Checkpoint,
    subject: HeadSubject,
    head: Head,
    ids: Sequence[int],
    target: Array,
    evidence: Evidence,
) -> None:
    """The model itself, run on the text, must attend as its weights say."""
    site = next(site for site in subject.shapes if site.is_self and site.layer == 0)
    text = {WORDS: torch.tensor([list(ids)], device=checkpoint.model.device)}
    own = maps_of(subject, [site], text).maps[site][int(head.described["head"])]
    errors = 0.5 * np.abs(own - target).sum(axis=1)
    if not abs(float(errors.max()) - evidence.total_variation) <= DIGITS:
        raise InputError(
            f"the model's own map on the tokens found is {number(float(errors.max()))} from the pattern, by its weights "
            f"{number(evidence.total_variation)}: something between them is not understood."
        )


def words_of(checkpoint: Checkpoint, ids: Sequence[int]) -> list[str]:
    """What the tokens read; their ids where no tokenizer says it."""
    try:
        return tokenizer_of(checkpoint).words(ids)
    except AttnError:
        return shown(ids)
