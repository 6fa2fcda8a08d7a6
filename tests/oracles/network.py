"""Slow, direct evaluation of a network file, by the semantics that `attncli.networks` states and none of its code.

Plain loops over Python lists. The same code runs on floats and on numbers of MPFR; a `Number` supplies the few
operations that differ between them.
"""

import json
import math
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import gmpy2
import numpy as np
from numpy.typing import NDArray

Scalar = Any  # float or mpfr
Vector = list[Scalar]
Matrix = list[Vector]
Layer = dict[str, Any]  # tensor name without "layers.{l}." -> nested lists of scalars
Settings = dict[str, str]  # the file's metadata
Function = Callable[[Scalar], Scalar]


class Number(NamedTuple):
    """A kind of number: its exact conversion from float, and its elementary functions."""

    convert: Function
    exp: Function
    sqrt: Function
    tanh: Function
    cos: Function
    sin: Function
    erf: Function
    log10: Function
    pi: Scalar


def numbers(digits: int | None) -> Number:
    """Floats if None, else numbers of so many decimal digits: all arithmetic from here on, until this is asked anew."""
    if digits is None:
        n: Any = math
        return Number(float, n.exp, n.sqrt, n.tanh, n.cos, n.sin, n.erf, n.log10, n.pi)
    n = gmpy2
    n.set_context(n.context(precision=math.ceil(digits * math.log2(10)) + 8))
    return Number(n.mpfr, n.exp, n.sqrt, n.tanh, n.cos, n.sin, n.erf, n.log10, n.const_pi())


def read(path: str | Path) -> tuple[dict[str, NDArray[np.float64]], Settings]:
    """Tensors and metadata: 8-byte little-endian header length, JSON header, raw F64 data."""
    raw = Path(path).read_bytes()
    start = 8 + int.from_bytes(raw[:8], "little")
    header = json.loads(raw[8:start])
    metadata: Settings = header.pop("__metadata__", {})
    tensors = {}
    for name, entry in header.items():
        if entry["dtype"] != "F64":
            raise ValueError(f"{name}: dtype {entry['dtype']}, expected F64")
        begin, end = entry["data_offsets"]
        data = np.frombuffer(raw[start + begin : start + end], dtype="<f8")
        tensors[name] = data.reshape(entry["shape"]).astype(np.float64)
    return tensors, metadata


def convert(nested: Any, number: Number) -> Any:
    """Nested lists of floats -> nested lists of numbers."""
    is_list = isinstance(nested, list)
    return [convert(item, number) for item in nested] if is_list else number.convert(nested)


def dot(a: Iterable[Scalar], b: Iterable[Scalar]) -> Scalar:
    return sum(x * y for x, y in zip(a, b, strict=True))


def matmul(a: Matrix, b: Matrix) -> Matrix:
    columns = list(zip(*b, strict=True))
    return [[dot(row, column) for column in columns] for row in a]


def add(a: Matrix, b: Matrix) -> Matrix:
    return [[x + y for x, y in zip(p, q, strict=True)] for p, q in zip(a, b, strict=True)]


def affine(x: Matrix, weight: Matrix, bias: Vector | None) -> Matrix:
    product = matmul(x, weight)
    return product if bias is None else add(product, [bias] * len(x))


def sigmoid(x: Scalar, number: Number) -> Scalar:
    e = number.exp(-abs(x))  # never overflows
    return 1 / (1 + e) if x >= 0 else e / (1 + e)


def activate(x: Scalar, kind: str, number: Number) -> Scalar:
    if kind == "relu":
        return max(x, number.convert(0))
    if kind == "silu":
        return x * sigmoid(x, number)
    if kind == "gelu":
        inner = number.sqrt(2 / number.pi) * (x + number.convert(0.044715) * x * x * x)
        return x * (1 + number.tanh(inner)) / 2
    raise ValueError(f"activation {kind!r}")


def centred(row: Iterable[Scalar]) -> Vector:
    """Subtract the mean; shifted by the first entry so that equal entries give exactly zero."""
    row = list(row)
    shifted = [x - row[0] for x in row]
    mean = sum(shifted) / len(row)
    return [x - mean for x in shifted]


def norm(x: Matrix, kind: str, number: Number) -> Matrix:
    """Each token normalised over its features."""
    if kind == "none":
        return x
    if kind == "layer":
        x = [centred(row) for row in x]
    elif kind != "rms":
        raise ValueError(f"norm {kind!r}")
    epsilon = number.convert(1e-5)
    scales = [number.sqrt(dot(row, row) / len(row) + epsilon) for row in x]
    return [[value / scale for value in row] for row, scale in zip(x, scales, strict=True)]


def normalise(row: Iterable[Scalar]) -> Vector:
    row = list(row)
    total = sum(row)
    return [x / total for x in row]


def softmax_row(logits: Vector, number: Number) -> Vector:
    largest = max(logits)
    return normalise(number.exp(x - largest) for x in logits)


def sinkhorn(logits: Matrix, rounds: int, number: Number) -> Matrix:
    s = [softmax_row(row, number) for row in logits]
    for _ in range(rounds):
        columns = [normalise(column) for column in zip(*s, strict=True)]
        s = [normalise(row) for row in zip(*columns, strict=True)]
    return s


def visible_keys(mask: str, query: int, tokens: int) -> range:
    if mask == "none":
        return range(tokens)
    if mask == "causal":
        return range(query + 1)
    if mask.startswith("window:"):
        width = int(mask.removeprefix("window:"))
        return range(max(0, query - width + 1), query + 1)
    raise ValueError(f"mask {mask!r}")


def rope(x: Matrix, number: Number) -> Matrix:
    """Rotate the pairs (m, m + key/2) of each token of x [token][key]."""
    half = len(x[0]) // 2
    exponents = [number.convert(-m) / half for m in range(half)]
    rates = [number.convert(10000) ** exponent for exponent in exponents]
    rotated = []
    for i, row in enumerate(x):
        turns = [(number.cos(i * rate), number.sin(i * rate)) for rate in rates]
        pairs = list(zip(row[:half], row[half:], turns, strict=True))
        first = [a * cos - b * sin for a, b, (cos, sin) in pairs]
        second = [a * sin + b * cos for a, b, (cos, sin) in pairs]
        rotated.append(first + second)
    return rotated


def probabilities(q: Matrix, k: Matrix, bias: Vector | None, s: Settings, number: Number) -> Matrix:
    """P [query][key] of one head, from q, k [token][key width] and the bias [offset]."""
    tokens = len(q)
    scale = number.sqrt(number.convert(len(q[0])))

    def logit(i: int, j: int) -> Scalar:
        value = dot(q[i], k[j]) / scale
        return value if bias is None else value + bias[j - i + tokens - 1]

    kind = s["attention"]
    if kind.startswith("sinkhorn:"):  # never masked
        logits = [[logit(i, j) for j in range(tokens)] for i in range(tokens)]
        return sinkhorn(logits, int(kind.removeprefix("sinkhorn:")), number)
    if kind not in ("softmax", "gated"):
        raise ValueError(f"attention {kind!r}")
    p = [[number.convert(0)] * tokens for _ in range(tokens)]
    for i in range(tokens):
        seen = visible_keys(s["mask"], i, tokens)
        p[i][seen.start : seen.stop] = softmax_row([logit(i, j) for j in seen], number)
    return p


def head(u: Matrix, w: Layer, s: Settings, remove_outlier: bool, number: Number) -> Matrix:
    """One head's share of the output [token][feature]; w holds that head's tensors only."""
    q = affine(u, w["w_q"], w.get("b_q"))  # [token][key]
    k = affine(u, w["w_k"], w.get("b_k"))  # [token][key]
    v = affine(u, w["w_v"], w.get("b_v"))  # [token][value]
    if s["positions"] == "rope":
        q, k = rope(q, number), rope(k, number)
    elif s["positions"] not in ("none", "relative"):
        raise ValueError(f"positions {s['positions']!r}")
    bias = w["relative_bias"] if s["positions"] == "relative" else None  # [offset]
    p = probabilities(q, k, bias, s, number)  # [query][key]
    if remove_outlier:
        p = [[x - number.convert(1) / len(u) for x in row] for row in p]
    out = matmul(p, v)  # [token][value]
    if s["attention"] == "gated":
        gate = [[sigmoid(g, number) for g in row] for row in matmul(u, w["w_g"])]
        out = [[g * x for g, x in zip(*rows, strict=True)] for rows in zip(gate, out, strict=True)]
    return matmul(out, w["w_o"])


def attention(u: Matrix, w: Layer, s: Settings, remove_outlier: bool, number: Number) -> Matrix:
    """Sum over heads, plus b_o; u and the result are [token][feature]."""
    names = ("w_q", "w_k", "w_v", "w_o", "w_g", "b_q", "b_k", "b_v", "relative_bias")
    total = [w.get("b_o", [number.convert(0)] * len(u[0]))] * len(u)
    for h in range(len(w["w_q"])):
        one = {name: w[name][h] for name in names if name in w}
        total = add(total, head(u, one, s, remove_outlier, number))
    return total


def mlp_output(u: Matrix, w: Layer, s: Settings, number: Number) -> Matrix:
    hidden = affine(u, w["mlp.w_in"], w.get("mlp.b_in"))  # [token][hidden]
    active = [[activate(x, s["activation"], number) for x in row] for row in hidden]
    return affine(active, w["mlp.w_out"], w.get("mlp.b_out"))  # [token][feature]


def block(x: Matrix, f: Callable[[Matrix], Matrix], skip: bool, s: Settings, n: Number) -> Matrix:
    """f (attention or MLP) with its norm, before or after, and with or without its skip."""
    if s["norm_position"] not in ("pre", "post"):
        raise ValueError(f"norm_position {s['norm_position']!r}")
    pre = s["norm_position"] == "pre"
    y = f(norm(x, s["norm"], n) if pre else x)
    x = add(x, y) if skip else y
    return x if pre else norm(x, s["norm"], n)


def states(
    path: str | Path, *, skip: bool, mlp: bool, mlp_skip: bool, remove_outlier: bool, number: Number
) -> list[Matrix]:
    """State 0 (the embeddings) to state L, each [token][feature]."""
    arrays, s = read(path)
    tensors = {name: convert(array.tolist(), number) for name, array in arrays.items()}
    x: Matrix = tensors["x"]
    result = [x]
    for index in range(int(s["layers"])):
        prefix = f"layers.{index}."
        w = {n.removeprefix(prefix): t for n, t in tensors.items() if n.startswith(prefix)}
        attend = partial(attention, w=w, s=s, remove_outlier=remove_outlier, number=number)
        x = block(x, attend, skip, s, number)
        if mlp:
            x = block(x, partial(mlp_output, w=w, s=s, number=number), mlp_skip, s, number)
        result.append(x)
    return result


def composite_norm(m: Matrix, number: Number) -> Scalar:
    """sqrt(max column sum * max row sum), one root per factor so that no product underflows."""
    largest_row = max(sum(abs(x) for x in row) for row in m)
    largest_column = max(sum(abs(x) for x in column) for column in zip(*m, strict=True))
    return number.sqrt(largest_column) * number.sqrt(largest_row)


def log10_residual(x: Matrix, number: Number) -> float:
    """log10 of r; minus infinity if every token equals the mean token."""
    columns = [centred(column) for column in zip(*x, strict=True)]  # [feature][token]
    residual = [list(row) for row in zip(*columns, strict=True)]  # [token][feature]
    size = composite_norm(residual, number)
    return float(number.log10(size / composite_norm(x, number))) if size else -math.inf


def log10_residuals(
    path: str | Path,
    *,
    skip: bool,
    mlp: bool,
    mlp_skip: bool,
    remove_outlier: bool = False,
    digits: int | None,
) -> list[float]:
    """log10 of the residual r at states 0..L, `digits` as in `numbers`."""
    number = numbers(digits)
    xs = states(
        path, skip=skip, mlp=mlp, mlp_skip=mlp_skip, remove_outlier=remove_outlier, number=number
    )
    return [log10_residual(x, number) for x in xs]
