"""`attn head-capacity MODEL --head 0.H --inputs embeddings`: patterns shown by real tokens,
alongside free inputs."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch

from attncli.analysis.collect_whole_maps_by_layer import capture_maps_of_layers
from attncli.analysis.fits.fit_rows import MEASURED, OUT_OF_RANGE
from attncli.analysis.load_and_verify_model import PreparedModel
from attncli.commands.head_capacity.one_head.head_report import (
    REAL_METRICS,
    build_metric_row_or_null,
    describe_unmet_fit_limits,
)
from attncli.commands.head_capacity.one_head.inputs_for_pattern import PatternInDtype, PatternInputs
from attncli.commands.head_capacity.one_head.search_tokens_for_pattern import (
    TokenSearchResult,
    search_best_tokens,
)
from attncli.commands.head_capacity.one_head.token_queries_and_keys import (
    Array,
    TokenTable,
    build_token_query_key_table,
    compute_queries_and_keys_of_text,
)
from attncli.errors import AttnError, InputError
from attncli.fits._fit_request_and_module import FitRequest
from attncli.fits._verify_fit import FitEvidence, compare_module_with_target
from attncli.head_weights.trained_head import Head
from attncli.maths.number_format import format_number
from attncli.models.inputs.model_input import WORDS, label_tokens_by_ids
from attncli.models.inputs.tokenizing import load_tokenizer
from attncli.models.loading.loaded_model import LoadedModel
from attncli.progress import Progress, ignore_progress
from attncli.records import Finding, Report, Row, Scalar
from attncli.tolerances import HEAD_MAP

METHOD = "tokens"
MOST_WORDS = 12
"""Tokens that a finding names."""


@dataclass(frozen=True)
class PatternFromTokens:
    """One pattern and the best text found for it."""

    pattern: str
    ids: tuple[int, ...]
    words: tuple[str, ...]
    evidence: FitEvidence
    free: float
    """Total variation of the worst row by free inputs, in float64."""
    candidates: int
    vocabulary: int

    @property
    def report_row_keys(self) -> dict[str, Scalar]:
        fit = f"{self.pattern} {METHOD}"
        return {"fit": fit, "pattern": self.pattern, "method": METHOD, "dtype": "float64"}

    def build_pattern_rows(self, request: FitRequest) -> Iterator[Row]:
        met = self.evidence.meets_fit_request(replace(request, dtype="float64"))
        yield Row("meets", int(met), "0 or 1", keys=self.report_row_keys)
        for metric in MEASURED:
            yield build_metric_row_or_null(
                metric, getattr(self.evidence, metric), OUT_OF_RANGE, self.report_row_keys
            )
        for position, (token, word) in enumerate(zip(self.ids, self.words, strict=True)):
            keys = {**self.report_row_keys, "position": position, "token": word}
            yield Row("token_id", token, REAL_METRICS["token_id"].unit, keys=keys)

    def build_best_text_finding(self, request: FitRequest) -> Finding:
        sentence = describe_unmet_fit_limits(
            PatternInDtype("float64", np.zeros((0, 0)), self.evidence), request
        )
        text = " ".join(self.words[:MOST_WORDS]) + (" …" if len(self.words) > MOST_WORDS else "")
        return Finding(str(self.report_row_keys["fit"]), f"{sentence}; by: {text}")

    def format_total_variations(self) -> str:
        found = format_number(self.evidence.total_variation)
        return f"{self.pattern}: total variation {found} by real tokens, {format_number(self.free)} by free inputs"


def add_real_token_results(
    report: Report,
    checkpoint: LoadedModel,
    subject: PreparedModel,
    head: Head,
    inputs: Sequence[PatternInputs],
    request: FitRequest,
    seeds: Sequence[int],
    progress: Progress = ignore_progress,
) -> Report:
    """Add to the report of free inputs, for each pattern, the result of the best text found."""
    tables: dict[int, TokenTable] = {}
    shown: list[PatternFromTokens] = []
    for one in inputs:
        length = one.target.shape[0]
        if length not in tables:
            tables[length] = build_token_query_key_table(
                checkpoint, head, length, seeds[0], progress
            )
        shown.append(
            search_tokens_for_pattern(
                checkpoint, subject, head, one, tables[length], seeds, progress
            )
        )
    name = f"{head.description['folder']}:{head.description['layer']}.{head.description['head']}"
    first = tables[inputs[0].target.shape[0]]
    drawn = (
        f"{len(first.ids):,} of {first.of:,} tokens were tried: a shorter length leaves room for more.",
    )
    return replace(
        report,
        headline=f"{name} by the model's own embeddings: {'; '.join(one.format_total_variations() for one in shown)}.",
        rows=(*report.rows, *(row for one in shown for row in one.build_pattern_rows(request))),
        metrics={**report.metrics, **REAL_METRICS},
        input={**report.input, "candidates": len(first.ids), "vocabulary": first.of},
        findings=(*report.findings, *(one.build_best_text_finding(request) for one in shown)),
        warnings=(
            *report.warnings,
            *(drawn if len(first.ids) < 0.9 * first.of else ()),
            "tokens that were not found are not proved impossible: the search exchanges one token at a time.",
        ),
    )


def search_tokens_for_pattern(
    checkpoint: LoadedModel,
    subject: PreparedModel,
    head: Head,
    one: PatternInputs,
    table: TokenTable,
    seeds: Sequence[int],
    progress: Progress,
) -> PatternFromTokens:
    assert one.attempt.fit is not None
    target: Array = one.target.toarray()
    queries, keys = np.split(one.attempt.fit.x.astype(np.float64), 2, axis=1)
    found: TokenSearchResult = search_best_tokens(
        table, target, head.causal, (queries, keys), seeds, progress
    )
    ids = tuple(int(each) for each in table.ids[found.indices])
    evidence = compare_module_with_target(
        *compute_queries_and_keys_of_text(checkpoint, head, ids),
        one.target,
        "float64",
        head.causal,
        1.0,
    )
    require_same_map_from_model(checkpoint, subject, head, ids, target, evidence)
    free = one.by_dtype[0].evidence.total_variation
    words = tuple(decode_tokens(checkpoint, ids))
    return PatternFromTokens(one.pattern, ids, words, evidence, free, len(table.ids), table.of)


def require_same_map_from_model(
    checkpoint: LoadedModel,
    subject: PreparedModel,
    head: Head,
    ids: Sequence[int],
    target: Array,
    evidence: FitEvidence,
) -> None:
    """Refuse a head whose map, when the model runs on the text, differs from the one computed from
    its weights."""
    site = next(site for site in subject.shapes if site.is_self_attention and site.layer == 0)
    text = {WORDS: torch.tensor([list(ids)], device=checkpoint.model.device)}
    own = capture_maps_of_layers(subject, [site], text).maps_by_layer[site][
        int(head.description["head"])
    ]
    errors = 0.5 * np.abs(own - target).sum(axis=1)
    if not abs(float(errors.max()) - evidence.total_variation) <= HEAD_MAP.tolerance_for_dtype():
        raise InputError(
            f"the model's own map on the tokens found is {format_number(float(errors.max()))} from the pattern, by its weights "
            f"{format_number(evidence.total_variation)}: something between them is not understood."
        )


def decode_tokens(checkpoint: LoadedModel, ids: Sequence[int]) -> list[str]:
    """Decode the tokens; their ids where there is no tokenizer."""
    try:
        return load_tokenizer(checkpoint).decode_each_token(ids)
    except AttnError:
        return label_tokens_by_ids(ids)
