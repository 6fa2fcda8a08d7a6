"""`attn head-capacity MODEL --head LAYER.HEAD`: the report of a trained head that shows patterns by its inputs alone."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from attncli.analysis.fits.fit_rows import (
    FIT_METRICS,
    MEASURED,
    OUT_OF_RANGE,
    WORDS_VIEW,
    build_failed_fit_verdicts,
    warn_about_dense_rows,
)
from attncli.commands.head_capacity.one_head.inputs_for_pattern import PatternInDtype, PatternInputs
from attncli.fits._fit_request_and_module import FitRequest
from attncli.fits._width_search import describe_missed_fit_limits
from attncli.head_weights.inputs_for_requested_queries import (
    compute_largest_input_vector_norm,
    invert_query_key_projections,
)
from attncli.head_weights.trained_head import Head
from attncli.maths.dtype_rounding import DTYPES
from attncli.maths.number_format import format_number
from attncli.records import Definition, Finding, JsonObject, Report, Row, Scalar, View

HEAD_METRICS = {name: FIT_METRICS[name] for name in ("meets", *MEASURED)} | {
    "condition": Definition("1", "Largest over smallest singular value of [W_Q W_K]: how much rounding errors can grow; 1 at best."),
    "input_norm": Definition("1", "Largest length of an input x = [Q K][W_Q W_K]^+ of the head."),
    "norm_reach": Definition("1", "Length of the least token before the norm's gain, over √hidden: up to 1 that norm can put it out (our own definition)."),
}  # fmt: skip

REAL_METRICS = {
    "token_id": Definition(
        "id", "The token at this position of the text found, of layer 0's own embeddings."
    )
}

VIEWS = (
    View("Patterns by inputs alone", "fit", ("meets", *MEASURED, "input_norm", "norm_reach")),
    View("[W_Q W_K], rounded", "dtype", ("condition",)),
    WORDS_VIEW,
)


def build_pattern_inputs_report(
    head: Head, inputs: Sequence[PatternInputs], request: FitRequest, seeds: Sequence[int]
) -> Report:
    """Build the report: for each pattern and dtype, the map's distance from the pattern."""
    return Report(
        study="approximate module",
        headline=format_worst_pattern_headline(head, inputs),
        rows=tuple(build_pattern_distance_rows(head, inputs, request)),
        metrics=HEAD_METRICS,
        source=describe_trained_head(head, request),
        input={"patterns": [one.pattern for one in inputs]},
        seeds=tuple(seeds),
        views=VIEWS,
        findings=tuple(
            Finding(
                str(report_row_keys_of_pattern(one, shown)["fit"]),
                describe_unmet_fit_limits(shown, request),
            )
            for one in inputs
            for shown in one.by_dtype
        ),
        warnings=tuple(warn_about_inputs_and_head(head, inputs)),
        verdicts=build_failed_fit_verdicts(
            (
                str(report_row_keys_of_pattern(one, shown)["fit"]),
                describe_unmet_fit_limits(shown, request),
            )
            for one in inputs
            for shown in one.by_dtype
            if shown.dtype == request.dtype and not shown.evidence.meets_fit_request(request)
        ),
    )


def describe_trained_head(head: Head, request: FitRequest) -> JsonObject:
    rotary = head.rotary and {"base": head.rotary.base, "width": head.rotary.width}
    module = {
        **head.description,
        "d": head.query_key_width,
        "hidden": len(head.w_q),
        "scale": head.scale,
    }
    limits = {
        name: value for name, value in request.describe_fit_request().items() if name != "dtype"
    }
    return {"kind": "trained head", "request": limits, "module": {**module, "rotary": rotary}}


def format_worst_pattern_headline(head: Head, inputs: Sequence[PatternInputs]) -> str:
    """The worst pattern in every dtype."""
    name = "{folder}:{layer}.{head} ({family}, d = {d})".format(
        **head.description, d=head.query_key_width
    )
    worst = {
        dtype: max(one.by_dtype[index].evidence.total_variation for one in inputs)
        for index, dtype in enumerate(DTYPES)
    }
    worst_by_dtype = ", ".join(
        f"{format_number(value)} in {dtype}" for dtype, value in worst.items()
    )
    count = f"{len(inputs)} pattern{'s' if len(inputs) > 1 else ''}"
    return f"{name} shows {count} by inputs alone: total variation at most {worst_by_dtype}."


def report_row_keys_of_pattern(one: PatternInputs, shown: PatternInDtype) -> dict[str, Scalar]:
    return {
        "fit": f"{one.pattern} {shown.dtype}",
        "pattern": one.pattern,
        "method": one.attempt.method,
        "dtype": shown.dtype,
    }


def build_pattern_distance_rows(
    head: Head, inputs: Sequence[PatternInputs], request: FitRequest
) -> Iterator[Row]:
    for one in inputs:
        for shown in one.by_dtype:
            keys = report_row_keys_of_pattern(one, shown)
            yield Row("meets", int(shown.evidence.meets_fit_request(request)), "0 or 1", keys=keys)
            for metric in MEASURED:
                yield build_metric_row_or_null(
                    metric, getattr(shown.evidence, metric), OUT_OF_RANGE, keys
                )
            longest = float(np.linalg.norm(shown.x.astype(np.float64), axis=1).max())
            yield build_metric_row_or_null("input_norm", longest, OUT_OF_RANGE, keys)
            yield build_metric_row_or_null(
                "norm_reach",
                compute_largest_input_vector_norm(head, shown.x),
                "n/a: no known norm before",
                keys,
            )
    for dtype in DTYPES:
        condition = invert_query_key_projections(head, dtype).condition
        yield Row("condition", condition, "1", keys={"dtype": dtype})


def build_metric_row_or_null(
    metric: str, value: float | None, why: str, keys: Mapping[str, Scalar]
) -> Row:
    unit = HEAD_METRICS[metric].unit
    if value is None or not np.isfinite(value):
        return Row(metric, None, unit, note=why, keys=keys)
    return Row(metric, value, unit, keys=keys)


def describe_unmet_fit_limits(shown: PatternInDtype, request: FitRequest) -> str:
    rounded_request = replace(request, dtype=shown.dtype)
    met = shown.evidence.meets_fit_request(rounded_request)
    return (
        "meets the request" if met else describe_missed_fit_limits(shown.evidence, rounded_request)
    )


def warn_about_inputs_and_head(head: Head, inputs: Sequence[PatternInputs]) -> Iterator[str]:
    yield from head.warnings
    far = [
        one.pattern
        for one in inputs
        if (compute_largest_input_vector_norm(head, one.by_dtype[0].x) or 0.0) > 1.0
    ]
    if far:
        yield (
            f"{', '.join(far)}: longer inputs than the norm before the head can put out (norm_reach > 1): "
            "they reach the head only if given past that norm."
        )
    yield from warn_about_dense_rows({one.pattern: one.target for one in inputs})
    if head.rotary is not None:
        yield "rotary positions: x is solved for each position, so a token's input serves its own place alone."
