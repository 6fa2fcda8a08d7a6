"""(P - 1π^T) V on every path, against the same in arbitrary precision."""

import mpmath
import numpy as np
import pytest

from attncli.maths.common_row_arithmetic.arrays_with_integer_exponent import (
    align_scaled_to_exponent,
    make_scaled_array,
)
from attncli.maths.common_row_arithmetic.logit_deviation_from_reference_row import (
    Logits,
    iter_logit_blocks,
    view_position_bias_rows,
)
from attncli.maths.common_row_arithmetic.sinkhorn_attention import (
    compute_sinkhorn_attention_deviation,
)
from attncli.maths.common_row_arithmetic.softmax_attention import (
    compute_reference_row_minus_uniform,
    compute_softmax_attention_deviation,
    compute_softmax_attention_output,
)

TOKENS = 5


def logits(log2_size: int, reference: float, seed: int = 3) -> Logits:
    rng = np.random.default_rng(seed)
    return Logits(
        reference=make_scaled_array(reference * rng.standard_normal((1, TOKENS))),
        queries=make_scaled_array(rng.standard_normal((1, TOKENS, 3))),
        keys=make_scaled_array(rng.standard_normal((1, TOKENS, 3)), log2_size),
    )


def exact_rows(given: Logits) -> tuple[list[list[mpmath.mpf]], list[mpmath.mpf]]:
    """P and π in arbitrary precision."""
    unit = mpmath.mpf(2) ** (given.queries.exponent + given.keys.exponent)
    a = [mpmath.mpf(x) for x in given.reference.value()[0]]
    rows = []
    for q in given.queries.mantissa[0]:
        e = [unit * mpmath.fsum(mpmath.mpf(x) * mpmath.mpf(y) for x, y in zip(q, k, strict=True)) for k in given.keys.mantissa[0]]  # fmt: skip
        rows.append(softmax([x + y for x, y in zip(a, e, strict=True)]))
    return rows, softmax(a)


def softmax(logits: list[mpmath.mpf]) -> list[mpmath.mpf]:
    weights = [mpmath.exp(x - max(logits)) for x in logits]
    return [weight / mpmath.fsum(weights) for weight in weights]


@pytest.mark.slow
@pytest.mark.parametrize("log2_size", [-4000, -70, -30, 0, 4, 12, 40])
@pytest.mark.parametrize("reference", [0.0, 1.0, 60.0, 2000.0])
def test_deviations_keep_their_digits_on_every_path(log2_size: int, reference: float) -> None:
    """Vanishing, factored and logarithmic, with the reference from uniform to one-hot."""
    given = logits(log2_size, reference)
    values = make_scaled_array(np.random.default_rng(5).standard_normal((1, TOKENS, 2)))
    found, resolved = compute_softmax_attention_deviation(given, values)
    with mpmath.workdps(3000):
        rows, pi = exact_rows(given)
        exact = [
            [
                mpmath.fsum(
                    (p - w) * mpmath.mpf(v) for p, w, v in zip(row, pi, column, strict=True)
                )
                for column in values.value()[0].T
            ]
            for row in rows
        ]
        unit = mpmath.mpf(2) ** found.exponent
        expected = np.array([[float(x / unit) for x in row] for row in exact])
    assert resolved
    np.testing.assert_allclose(found.mantissa[0], expected, rtol=1e-6, atol=1e-9)


def test_keys_that_coincide_are_reported_instead_of_rounding() -> None:
    """Two keys share the attention and have the same value: what is left of P - π is e^-200 of the third."""
    given = Logits(
        reference=make_scaled_array(np.array([[0.0, 0.0, -200.0]])),
        queries=make_scaled_array(np.array([[[1.0], [-1.0], [0.5]]])),
        keys=make_scaled_array(np.array([[[1.0], [2.0], [0.0]]])),
    )
    values = np.array([[[1.0], [1.0], [5.0]]])
    assert not compute_softmax_attention_deviation(given, make_scaled_array(values)).resolved
    values[0, 1] = 2.0
    assert compute_softmax_attention_deviation(given, make_scaled_array(values)).resolved


@pytest.mark.parametrize("size", [1e-3, 1.0, 300.0])
def test_output_is_what_anyone_computes(size: float) -> None:
    given = logits(0, size)
    values = np.random.default_rng(9).standard_normal((1, TOKENS, 2))
    plain = given.reference.value() + given.queries.value()[0] @ given.keys.value()[0].T
    weights = np.exp(plain - plain.max(axis=-1, keepdims=True))
    expected = weights / weights.sum(axis=-1, keepdims=True) @ values[0]
    np.testing.assert_allclose(
        compute_softmax_attention_output(given, make_scaled_array(values)).value()[0],
        expected,
        rtol=1e-12,
    )


@pytest.mark.parametrize("exponent", [0, -40, -4000])
def test_the_reference_offset_is_relative_to_uniform(exponent: int) -> None:
    a = np.array([[0.1, -0.2, 0.5]])
    offset = compute_reference_row_minus_uniform(
        logits(0, 1.0)._replace(reference=make_scaled_array(a, exponent))
    )
    with mpmath.workdps(2600):
        unit = mpmath.mpf(2) ** exponent
        pi = softmax([mpmath.mpf(x) * unit for x in a[0]])
        expected = [float((p - mpmath.mpf(1) / 3) / unit) for p in pi]
    np.testing.assert_allclose(align_scaled_to_exponent(offset, exponent)[0], expected, rtol=1e-12)


def test_small_sinkhorn_deviations_are_doubly_centred_logits() -> None:
    given = logits(-60, 0.0)
    values = np.random.default_rng(1).standard_normal((1, TOKENS, 2))
    e = given.queries.mantissa[0] @ given.keys.mantissa[0].T
    e = e - e.mean(axis=0) - e.mean(axis=1, keepdims=True) + e.mean()
    found = compute_sinkhorn_attention_deviation(given, make_scaled_array(values), rounds=2)
    unit = given.queries.exponent + given.keys.exponent
    np.testing.assert_allclose(
        align_scaled_to_exponent(found, unit)[0], e @ values[0] / TOKENS, rtol=1e-9
    )


def test_bias_rows_are_toeplitz() -> None:
    bias = np.arange(5.0)[None]  # tokens = 3, offsets -2 … 2
    rows = view_position_bias_rows(bias, slice(0, 3))[0]
    np.testing.assert_array_equal(rows, [[2, 3, 4], [1, 2, 3], [0, 1, 2]])


@pytest.mark.parametrize(("heads", "tokens"), [(1, 1), (3, 4), (2, 1500), (8, 2048)])
def test_blocks_cover_every_row_once(heads: int, tokens: int) -> None:
    seen = np.zeros((heads, tokens), dtype=int)
    for some, rows in iter_logit_blocks(heads, tokens, tokens):
        seen[some, rows] += 1
    assert (seen == 1).all()
