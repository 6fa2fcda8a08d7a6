"""Every tolerance of a verification: what is compared, by which norm, how far it may be off, and why that far.

A wrong capture or decomposition yields plausible numbers, so each is compared with the model's own before anything is
reported. Verifications take their tolerance from here and have none of their own:

    if not difference <= CAPTURED_OUTPUT.of(output.dtype):
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

    compared: str
    """What with what."""
    norm: str
    """How a difference is measured."""
    why: str
    """Why it is no smaller, and no larger."""
    number: float = math.nan
    """The largest difference, for float32 and whatever `by_dtype` does not name."""
    by_dtype: Mapping[str, float] = field(default_factory=dict)
    """The same for other dtypes."""
    roundings: float = math.nan
    """Instead of both: the largest difference in units of the dtype's ε."""
    most: float = math.inf
    """No more than this, whatever ε is."""

    def of(self, dtype: object = "float32") -> float:
        """The largest difference allowed between numbers of this dtype of torch's, numpy's or by name."""
        name = str(dtype).removeprefix("torch.")
        name = PARTS.get(name, name)
        if math.isnan(self.roundings):
            return min(self.by_dtype.get(name, self.number), self.most)
        return min(self.roundings * EPSILON.get(name, EPSILON["float32"]), self.most)


CAPTURED_OUTPUT = Tolerance(
    compared="the model's output under capture with its plain output",
    norm="largest difference, relative to the largest number of each tensor",
    why="In float64 it is what the float32 softmax in the models' own code leaves; in half precision strips are more "
    "precise than the model.",
    number=1e-4,
    by_dtype={"float64": 1e-6, "bfloat16": 5e-2, "float16": 1e-2},
)

ROW_SUM = Tolerance(
    compared="the sum of a captured row with 1",
    norm="absolute difference",
    why="A float32 row over many thousand keys misses 1 by 1e-5; what is no softmax misses it by far more.",
    number=1e-3,
)

ONE_PASS_ROW = Tolerance(
    compared="rows that the one-pass library computed with those of the model's own eager function",
    norm="largest difference of outputs, relative to the largest one, and of each statistic, relative to it where it is above 1",
    why="Rounding of float32 leaves 1e-6, and more where scores are large: there the model's own function computes the rest.",
    number=1e-4,
)

BATCHED_TEXT = Tolerance(
    compared="the numbers of a text in a batch with its numbers alone",
    norm="each number, relative and absolute",
    why="Products of another shape sum in another order; a model whose texts see each other is far off.",
    number=1e-4,
    by_dtype={"float64": 1e-6, "bfloat16": 5e-2, "float16": 1e-2},
)

FULL_ROW = Tolerance(
    compared="the sum of a row with 1, to tell whether a learned sink took a share",
    norm="absolute difference",
    why="Float32 over thousands of keys leaves 1e-5.",
    number=1e-3,
)

UNIFORM_ROW = Tolerance(
    compared="the weights of a row with their mean over visible keys",
    norm="largest difference, relative to the mean",
    why="All tokens are equal: without positions their weights are, up to rounding in float32.",
    number=1e-4,
)

STEP_CAPTURE = Tolerance(
    compared="a metric of a training step, captured while it runs, with that of the verified capture",
    norm="each number, relative and absolute",
    why="The step runs the model's own attention function, the verified capture its eager one: states before differ by "
    "rounding.",
    number=1e-3,
)

DIFFERENTIAL_OUTPUT = Tolerance(
    compared="the output of differential attention with our formulas for it",
    norm="largest difference, relative to the largest number",
    why="The model computes λ in float32, hence 1e-6 in float64; elsewhere half the digits of the dtype.",
    number=2.0**-11.5,
    by_dtype={"float64": 1e-6, "bfloat16": 2.0**-3.5, "float16": 2.0**-5},
)

LINEAR_ARGUMENT = Tolerance(
    compared="the output of a kernel for a sum or multiple with the sum or multiple of its outputs",
    norm="largest difference, relative to the largest number",
    why="Rounding over a short text; what is not linear is off by a share of the output.",
    number=1e-4,
    by_dtype={"float64": 1e-9},
)

LINEAR_MAP = Tolerance(
    compared="the map of a linear layer times its values with the layer's output",
    norm="‖A v - y‖ / ‖y‖",
    why="The same rounding, in all rows together.",
    number=1e-4,
    by_dtype={"float64": 1e-9},
)

TOKEN_MIXING = Tolerance(
    compared="a token's numbers before and after another token is changed",
    norm="largest difference, relative to the largest number",
    why="Experts with other tokens sum in another order.",
    roundings=32,
)

SAVED_ROW_SUM = Tolerance(
    compared="the sum of a row of a map in a file with 1",
    norm="absolute difference",
    why="Maps may have been rounded to half precision.",
    number=1e-2,
)

SAVED_HIDDEN_WEIGHT = Tolerance(
    compared="the share of a row in a file on keys that are later or masked with 0",
    norm="sum over these keys",
    why="So little is noise of the program that wrote the map: it is not refused, and a warning names it.",
    number=1e-3,
)

TRACKED_OUTPUT = Tolerance(
    compared="the output of a block whose tensors are followed with its plain output",
    norm="largest difference, relative to the largest number",
    why="Tracking may change which kernel torch chooses; 5 % in half precision.",
    roundings=1000,
    most=0.05,
)

UNCHANGED_NUMBERS = Tolerance(
    compared="the result of a clamp or a mask with what went in",
    norm="each number, relative",
    why="The result may come from a second pass, whose last bits differ.",
    roundings=4,
)

UNNAMED_NORM = Tolerance(
    compared="a module's output for four times its input with that for its input",
    norm="each number, relative",
    why="A norm's ε moves small tokens a little; whatever is no norm is far off.",
    number=1e-2,
)

HANDWRITTEN_NORM = Tolerance(
    compared="a norm written by hand with the rule, on random tokens",
    norm="each number, relative",
    why="Modules may compute in float32.",
    number=1e-5,
)

HANDWRITTEN_NORM_AT_ZERO = Tolerance(
    compared="the same",
    norm="each number, absolute",
    why="For numbers near 0, where no relative difference means anything.",
    number=1e-8,
)

KNOWN_ROW_SUM = Tolerance(
    compared="the sum of a row of float64 weights of unknown origin with 1",
    norm="absolute difference",
    why="What rounding leaves over thousands of keys; a larger rest counts as the share of a sink.",
    number=1e-12,
)

PATH_ATTENTION = Tolerance(
    compared="weights times values with what the model's own attention function returns",
    norm="largest difference, relative to the largest number",
    why="Another order of the sums, in the dtype in which the model computes.",
    roundings=1000,
)

COMPLETENESS = Tolerance(
    compared="the sum of all terms of a decomposition with the output that it decomposes",
    norm="Frobenius norm, relative to the output's",
    why="The largest error that is still rounding; half precision would drown the terms.",
    number=1e-4,
    by_dtype={"float64": 1e-10},
)

PATH_MAP_ROW_SUM = Tolerance(
    compared="the sum of a row of a map with 1, before maps are multiplied",
    norm="absolute difference",
    why="Otherwise 1c^T does not pass through the map unchanged.",
    number=1e-4,
)

FIXED_LENGTH = Tolerance(
    compared="the relevance of all tokens for the norm of a state with 0",
    norm="largest number",
    why="Below is rounding: a norm layer has just fixed the length, whose gradient along the state is 0.",
    number=1e-7,
)

EXACT_CURVE = Tolerance(
    compared="the exact curve of log10 r with the one measured in the model's own arithmetic",
    norm="absolute difference in decades",
    why="In addition to the rounding error of that arithmetic, which is measured.",
    number=1e-6,
)

KNOWN_NUMBER = Tolerance(
    compared="a number with itself under perturbed rounding",
    norm="relative difference",
    why="Above, its digits are rounding, and it is reported as null.",
    number=0.01,
)

KNOWN_NUMBER_AT_ZERO = Tolerance(
    compared="the same",
    norm="absolute difference",
    why="Smaller uncertainty is negligible: log10 r = 0 has no relative error.",
    number=1e-6,
)

OTHER_MACHINE = Tolerance(
    compared="a statistic of one text with the same on another machine",
    norm="relative difference",
    why="What float32 may do to it happens on every text alike, and is no change of the model.",
    number=1e-5,
)

SAME_TOKEN = Tolerance(
    compared="a head's weight on token 0 with its largest weight on one token",
    norm="relative difference",
    why="They are one number where it is token 0, summed in another order.",
    number=1e-5,
)

HEAD_MAP = Tolerance(
    compared="the model's own map with the map computed from a head's weights",
    norm="total variation of the worst row, both from the pattern",
    why="Both in float64.",
    number=1e-9,
)

TOKEN_ALONE = Tolerance(
    compared="a token's query or key in a text with that of the token alone",
    norm="largest difference, relative to the largest number",
    why="Rounding in float32; a first layer that reads the neighbours is far off.",
    number=1e-5,
)

TARGET_ROW_SUM = Tolerance(
    compared="the sum of a target's row in a file of a fit with 1",
    norm="absolute difference",
    why="Rows rounded to float32 miss 1 by less.",
    number=1e-6,
)

OPTIMAL_RESIDUAL = Tolerance(
    compared="the norm of the residual found with the lower bound that the solver proves",
    norm="difference of ln",
    why="The solver leaves far less.",
    number=1e-7,
)

TABLE: Mapping[str, Tolerance] = {
    name: value for name, value in list(globals().items()) if isinstance(value, Tolerance)
}
"""All of them, by name."""
