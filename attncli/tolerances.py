"""Every tolerance of a verification; its docstring says what is compared, by which norm, and why it is that large.

A wrong capture or decomposition yields plausible numbers, so each is compared with the model's own before anything is
reported. Verifications take their tolerance from here and have none of their own:

    if not difference <= CAPTURED_OUTPUT.tolerance_for_dtype(output.dtype):
        raise InputError(...)

Where solvers stop, which weights a metric counts and what a finding calls large are no tolerances, and are elsewhere.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

EPSILON = {"float64": 2.0**-52, "float32": 2.0**-23, "bfloat16": 2.0**-7, "float16": 2.0**-10}
"""The distance from 1 to the next number of a dtype; a complex dtype has that of its parts."""

PARTS = {"complex128": "float64", "complex64": "float32"}


@dataclass(frozen=True)
class Tolerance:
    """How far two numbers may differ that would be equal without rounding."""

    number: float = math.nan
    """The largest difference, for float32 and whatever `by_dtype` does not name."""
    by_dtype: Mapping[str, float] = field(default_factory=dict)
    """The same for other dtypes."""
    roundings: float = math.nan
    """Instead of both: the largest difference in units of the dtype's ε."""
    most: float = math.inf
    """No more than this, whatever ε is."""

    def tolerance_for_dtype(self, dtype: object = "float32") -> float:
        """The largest difference allowed between numbers of this dtype of torch's, numpy's or by name."""
        name = str(dtype).removeprefix("torch.")
        name = PARTS.get(name, name)
        if math.isnan(self.roundings):
            return min(self.by_dtype.get(name, self.number), self.most)
        return min(self.roundings * EPSILON.get(name, EPSILON["float32"]), self.most)


CAPTURED_OUTPUT = Tolerance(1e-4, by_dtype={"float64": 1e-6, "bfloat16": 5e-2, "float16": 1e-2})
"""Compares the model's output under capture with its plain output: largest difference, relative to the largest number
of each tensor.

In float64 it is what the float32 softmax in the models' own code leaves; in half precision strips are more precise
than the model.
"""

ROW_SUM = Tolerance(1e-3)
"""Compares the sum of a captured row with 1: absolute difference.

A float32 row over many thousand keys misses 1 by 1e-5; what is no softmax misses it by far more.
"""

ONE_PASS_ROW = Tolerance(1e-4)
"""Compares rows that the one-pass library computed with those of the model's own eager function: largest difference
of outputs, relative to the largest one, and of each statistic, relative to it where it is above 1.

Rounding of float32 leaves 1e-6, and more where scores are large: there the model's own function computes the rest.
"""

BATCHED_TEXT = Tolerance(1e-4, by_dtype={"float64": 1e-6, "bfloat16": 5e-2, "float16": 1e-2})
"""Compares the numbers of a text in a batch with its numbers alone: each number, relative and absolute.

Products of another shape sum in another order; a model whose texts see each other is far off.
"""

FULL_ROW = Tolerance(1e-3)
"""Compares the sum of a row with 1, to tell whether a learned sink took a share: absolute difference.

Float32 over thousands of keys leaves 1e-5.
"""

UNIFORM_ROW = Tolerance(1e-4)
"""Compares the weights of a row with their mean over visible keys: largest difference, relative to the mean.

All tokens are equal: without positions their weights are, up to rounding in float32.
"""

STEP_CAPTURE = Tolerance(1e-3)
"""Compares a metric of a training step, captured while it runs, with that of the verified capture: each number,
relative and absolute.

The step runs the model's own attention function, the verified capture its eager one: states before differ by
rounding.
"""

DIFFERENTIAL_OUTPUT = Tolerance(
    2.0**-11.5, by_dtype={"float64": 1e-6, "bfloat16": 2.0**-3.5, "float16": 2.0**-5}
)
"""Compares the output of differential attention with our formulas for it: largest difference, relative to the largest
number.

The model computes λ in float32, hence 1e-6 in float64; elsewhere half the digits of the dtype.
"""

LINEAR_ARGUMENT = Tolerance(1e-4, by_dtype={"float64": 1e-9})
"""Compares the output of a kernel for a sum or multiple with the sum or multiple of its outputs: largest difference,
relative to the largest number.

Rounding over a short text; what is not linear is off by a share of the output.
"""

LINEAR_MAP = Tolerance(1e-4, by_dtype={"float64": 1e-9})
"""Compares the map of a linear layer times its values with the layer's output: ‖A v - y‖ / ‖y‖.

The same rounding, in all rows together.
"""

TOKEN_MIXING = Tolerance(roundings=32)
"""Compares a token's numbers before and after another token is changed: largest difference, relative to the largest
number.

Experts with other tokens sum in another order.
"""

SAVED_ROW_SUM = Tolerance(1e-2)
"""Compares the sum of a row of a map in a file with 1: absolute difference.

Maps may have been rounded to half precision.
"""

SAVED_HIDDEN_WEIGHT = Tolerance(1e-3)
"""Compares the share of a row in a file on keys that are later or masked with 0: sum over these keys.

So little is noise of the program that wrote the map: it is not refused, and a warning names it.
"""

TRACKED_OUTPUT = Tolerance(roundings=1000, most=0.05)
"""Compares the output of a block whose tensors are followed with its plain output: largest difference, relative to
the largest number.

Tracking may change which kernel torch chooses; 5 % in half precision.
"""

UNCHANGED_NUMBERS = Tolerance(roundings=4)
"""Compares the result of a clamp or a mask with what went in: each number, relative.

The result may come from a second pass, whose last bits differ.
"""

UNNAMED_NORM = Tolerance(1e-2)
"""Compares a module's output for four times its input with that for its input: each number, relative.

A norm's ε moves small tokens a little; whatever is no norm is far off.
"""

HANDWRITTEN_NORM = Tolerance(1e-5)
"""Compares a norm written by hand with the rule, on random tokens: each number, relative.

Modules may compute in float32.
"""

HANDWRITTEN_NORM_AT_ZERO = Tolerance(1e-8)
"""Compares the same: each number, absolute.

For numbers near 0, where no relative difference means anything.
"""

KNOWN_ROW_SUM = Tolerance(1e-12)
"""Compares the sum of a row of float64 weights of unknown origin with 1: absolute difference.

What rounding leaves over thousands of keys; a larger rest counts as the share of a sink.
"""

PATH_ATTENTION = Tolerance(roundings=1000)
"""Compares weights times values with what the model's own attention function returns: largest difference, relative to
the largest number.

Another order of the sums, in the dtype in which the model computes.
"""

COMPLETENESS = Tolerance(1e-4, by_dtype={"float64": 1e-10})
"""Compares the sum of all terms of a decomposition with the output that it decomposes: Frobenius norm, relative to
the output's.

The largest error that is still rounding; half precision would drown the terms.
"""

PATH_MAP_ROW_SUM = Tolerance(1e-4)
"""Compares the sum of a row of a map with 1, before maps are multiplied: absolute difference.

Otherwise 1c^T does not pass through the map unchanged.
"""

FIXED_LENGTH = Tolerance(1e-7)
"""Compares the relevance of all tokens for the norm of a state with 0: largest number.

Below is rounding: a norm layer has just fixed the length, whose gradient along the state is 0.
"""

EXACT_CURVE = Tolerance(1e-6)
"""Compares the exact curve of log10 r with the one measured in the model's own arithmetic: absolute difference in
decades.

In addition to the rounding error of that arithmetic, which is measured.
"""

KNOWN_NUMBER = Tolerance(0.01)
"""Compares a number with itself under perturbed rounding: relative difference.

Above, its digits are rounding, and it is reported as null.
"""

KNOWN_NUMBER_AT_ZERO = Tolerance(1e-6)
"""Compares the same: absolute difference.

Smaller uncertainty is negligible: log10 r = 0 has no relative error.
"""

OTHER_MACHINE = Tolerance(1e-5)
"""Compares a statistic of one text with the same on another machine: relative difference.

What float32 may do to it happens on every text alike, and is no change of the model.
"""

SAME_TOKEN = Tolerance(1e-5)
"""Compares a head's weight on token 0 with its largest weight on one token: relative difference.

They are one number where it is token 0, summed in another order.
"""

HEAD_MAP = Tolerance(1e-9)
"""Compares the model's own map with the map computed from a head's weights: total variation of the worst row, both
from the pattern.

Both in float64.
"""

TOKEN_ALONE = Tolerance(1e-5)
"""Compares a token's query or key in a text with that of the token alone: largest difference, relative to the largest
number.

Rounding in float32; a first layer that reads the neighbours is far off.
"""

TARGET_ROW_SUM = Tolerance(1e-6)
"""Compares the sum of a target's row in a file of a fit with 1: absolute difference.

Rows rounded to float32 miss 1 by less.
"""

OPTIMAL_RESIDUAL = Tolerance(1e-7)
"""Compares the norm of the residual found with the lower bound that the solver proves: difference of ln.

The solver leaves far less.
"""

TABLE: Mapping[str, Tolerance] = {
    name: value for name, value in list(globals().items()) if isinstance(value, Tolerance)
}
"""All of them, by name."""
