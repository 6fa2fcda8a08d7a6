"""How many random patterns a trained head can show by its inputs alone, in the dtype of its weights."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from scipy.sparse import csr_array

from attncli.commands.head_capacity.one_head.inputs_for_pattern import (
    fit_queries_and_keys_to_pattern,
    solve_inputs_and_measure_pattern,
)
from attncli.fits._fit_request_and_module import FitRequest
from attncli.fits._width_search import FitAttempt
from attncli.head_weights.inputs_for_requested_queries import (
    invert_query_key_projections,
    solve_projections_for_scores,
)
from attncli.head_weights.trained_head import Head
from attncli.patterns import build_pattern
from attncli.records import Definition

CAPACITY_METRICS: Mapping[str, Definition] = {
    "capacity": Definition("share", "Of random patterns with this many keys in every row, the share that the head's own weights show within the request by inputs alone; a failed search counts as not shown."),
    "capacity_k": Definition("keys", "The largest such number of keys at which all of them are shown."),
}  # fmt: skip

STORED = {"F64": "float64", "BF16": "bfloat16"}
"""Dtypes of weights in which the head is evaluated; all others in float32, which represents them
exactly."""


@dataclass
class RandomPatterns:
    """Patterns of one length with their queries and keys, fitted once for all heads of one width."""

    length: int
    request: FitRequest
    methods: Sequence[str]
    seeds: Sequence[int]
    fits: dict[tuple[int, bool, int, int], tuple[csr_array, FitAttempt]] = field(
        default_factory=dict
    )

    def iterate_key_counts_per_query(self) -> Iterator[int]:
        """1, 2, 4 … keys in a row, up to a quarter of the length."""
        k = 1
        while k <= max(1, self.length // 4):
            yield k
            k *= 2

    def fit_random_pattern(
        self, d: int, causal: bool, k: int, seed: int
    ) -> tuple[csr_array, FitAttempt]:
        """A pattern and its queries and keys at width d."""
        place = d, causal, k, seed
        if place not in self.fits:
            rng = np.random.default_rng([seed, k])
            target = build_pattern(f"random:k={k}", self.length, rng, causal)
            request = replace(self.request, d=d, causal=causal)
            self.fits[place] = (
                target,
                fit_queries_and_keys_to_pattern(target, self.methods, request, [seed]),
            )
        return self.fits[place]

    def share_of_reachable_patterns(self, head: Head) -> dict[int, float]:
        """Keys in a row → share of patterns shown; sizes after the first with share 0 are omitted."""
        shares: dict[int, float] = {}
        dtype = dtype_of_stored_head_weights(head)
        pseudo = invert_query_key_projections(head, dtype)
        for k in self.iterate_key_counts_per_query():
            shown = 0
            for seed in self.seeds:
                target, attempt = self.fit_random_pattern(
                    head.query_key_width, head.causal, k, seed
                )
                if not attempt.met or attempt.fit is None:
                    continue
                queries, keys = np.split(attempt.fit.x.astype(np.float64), 2, axis=1)
                projections = solve_projections_for_scores(head, queries, keys)
                evidence = solve_inputs_and_measure_pattern(
                    head, projections, target, dtype, pseudo
                ).evidence
                shown += evidence.meets_fit_request(replace(self.request, dtype=dtype))
            shares[k] = shown / len(self.seeds)
            if not shown:
                break
        return shares


def dtype_of_stored_head_weights(head: Head) -> str:
    return STORED.get(str(head.description["dtype"]), "float32")


def largest_fully_reachable_key_count(shares: Mapping[int, float]) -> int:
    """The largest number of keys up to which every pattern is shown; 0 where not even one key is."""
    best = 0
    for k, share in shares.items():
        if share < 1.0:
            break
        best = k
    return best
