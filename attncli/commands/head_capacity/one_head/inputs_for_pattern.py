"""Inputs that make a trained head show patterns, and the head's map on them in every dtype."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.sparse import csr_array

from attncli.errors import InputError, UsageError
from attncli.fits._fit_files import ModuleArrays, SavedFit
from attncli.fits._fit_request_and_module import FitRequest
from attncli.fits._fitting_method_registry import list_methods_for_trained_heads
from attncli.fits._verify_fit import FitEvidence, compare_module_with_target
from attncli.fits._width_search import FitAttempt, choose_best_fit_attempt, try_fit_at_width
from attncli.head_weights.head_projections import Array
from attncli.head_weights.inputs_for_requested_queries import (
    ProjectionInverse,
    invert_query_key_projections,
    project_inputs_to_queries_and_keys,
    solve_inputs_for_projections,
    solve_projections_for_scores,
)
from attncli.head_weights.trained_head import Head
from attncli.maths.dtype_rounding import DTYPES, Floats
from attncli.progress import Progress, ignore_progress

QUIET = 1e15
"""A logit budget that refuses nothing, but makes methods search for small logits from the start."""


@dataclass(frozen=True, slots=True)
class PatternInDtype:
    """One pattern on the head in one dtype."""

    dtype: str
    x: Floats
    evidence: FitEvidence


@dataclass(frozen=True, slots=True)
class PatternInputs:
    """One pattern: the method for its queries and keys, and the head's map on its inputs in every
    dtype."""

    pattern: str
    target: csr_array
    attempt: FitAttempt
    by_dtype: tuple[PatternInDtype, ...]


def find_inputs_for_patterns(
    head: Head,
    targets: Mapping[str, csr_array],
    methods: Sequence[str],
    request: FitRequest,
    seeds: Sequence[int],
    progress: Progress = ignore_progress,
) -> list[PatternInputs]:
    """Inputs for every pattern; `request` has the head's width and mask."""
    found: list[PatternInputs] = []
    for pattern, target in targets.items():
        progress(len(found), len(targets), "patterns")
        require_pattern_within_window(head, target)
        attempt = fit_queries_and_keys_to_pattern(target, methods, request, seeds)
        if attempt.fit is None:
            raise InputError(
                f"{pattern}: no queries and keys of width {head.query_key_width}: {attempt.reason}."
            )
        queries, keys = np.split(attempt.fit.x.astype(np.float64), 2, axis=1)
        projections = solve_projections_for_scores(head, queries, keys)
        shown = tuple(
            solve_inputs_and_measure_pattern(
                head, projections, target, dtype, invert_query_key_projections(head, dtype)
            )
            for dtype in DTYPES
        )
        found.append(PatternInputs(pattern, target, attempt, shown))
    progress(len(targets), len(targets), "patterns")
    return found


def require_pattern_within_window(head: Head, target: csr_array) -> None:
    if head.window is not None and target.shape[0] > head.window:
        raise UsageError(
            f"this layer sees {head.window} keys (sliding window): choose a `length` up to that, not {target.shape[0]}."
        )


def fit_queries_and_keys_to_pattern(
    target: csr_array, methods: Sequence[str], request: FitRequest, seeds: Sequence[int]
) -> FitAttempt:
    """Queries and keys in float64, by the first method that meets the request, else the nearest."""
    budget = min(request.logit_budget, QUIET)
    request = replace(request, dtype="float64", logit_budget=budget)
    names = [
        name
        for method in methods
        for name in (list_methods_for_trained_heads() if method == "auto" else (method,))
    ]
    attempts: list[FitAttempt] = []
    for name in names:
        attempts.append(try_fit_at_width(name, target, request, seeds))
        if attempts[-1].met:
            break
    return choose_best_fit_attempt(attempts)


def solve_inputs_and_measure_pattern(
    head: Head, projections: Array, target: csr_array, dtype: str, pseudo: ProjectionInverse
) -> PatternInDtype:
    """Round the weights, solve for x, round x, and compute the map as the model would; `pseudo`: of those weights."""
    x = solve_inputs_for_projections(head, projections, pseudo, dtype)
    queries, keys = project_inputs_to_queries_and_keys(head, x, dtype)
    return PatternInDtype(
        dtype, x, compare_module_with_target(queries, keys, target, dtype, head.causal, head.scale)
    )


def refuse_rotary_head(head: Head) -> None:
    """Refuse heads with rotary positions: files and plots describe softmax(x w_q w_k^T x^T)."""
    if head.rotary is not None:
        raise UsageError(
            "a head with rotary positions is no softmax(x w_q w_k^T x^T), which files and plots hold: "
            "leave out `save_module` and `pictures`."
        )


def convert_inputs_to_saved_fits(head: Head, inputs: Sequence[PatternInputs]) -> list[SavedFit]:
    """The float64 inputs as modules that anybody can check: biases as the weights of a constant feature, scale in w_q."""
    refuse_rotary_head(head)
    w_q = np.concatenate([head.w_q, head.b_q[None]]) * head.scale
    w_k = np.concatenate([head.w_k, head.b_k[None]])
    saved = []
    for number, one in enumerate(inputs):
        x = np.pad(one.by_dtype[0].x, ((0, 0), (0, 1)), constant_values=1.0)
        module = ModuleArrays(w_q, w_k, x, "float64", head.causal)
        saved.append(SavedFit(one.pattern, one.attempt.method, module, one.target, number))
    return saved
