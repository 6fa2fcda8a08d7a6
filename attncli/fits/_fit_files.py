"""Read and write fitted modules in safetensors files.

`w_q`, `w_k` [hidden, d]; per pattern i `x.{i}` [token, hidden] and its sparse target `target.{i}.row`, `.col`, `.value`.
Patterns are numbered as requested: where no module was found for pattern i, there is no `x.{i}`.
bfloat16 values are stored as float32, which represents them exactly. The map is softmax(x w_q w_k^T x^T), no further
scale; under `causal = true` in the metadata the keys after the query are masked.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array, csr_array

from attncli.errors import InputError, UsageError
from attncli.fits._fit_request_and_module import FitRequest
from attncli.io.json_files import BROKEN_JSON
from attncli.io.safetensors_arrays import StoredArrays
from attncli.maths.dtype_rounding import Floats
from attncli.resource_limits import parse_whole_number
from attncli.tolerances import TARGET_ROW_SUM

FORMAT = "attn-fit"
LIMITS = ("causal", "ratio_error", "off_support", "total_variation", "logit_budget", "dtype")


@dataclass(frozen=True, slots=True)
class ModuleArrays:
    """w_q, w_k and x as a file has them; other programs may have written it."""

    w_q: Floats
    w_k: Floats
    x: Floats
    dtype: str
    causal: bool


@dataclass(frozen=True, slots=True)
class SavedFit:
    """One pattern of a file."""

    pattern: str
    method: str
    module: ModuleArrays
    target: csr_array
    number: int = 0
    """Its number among the requested patterns, from 0."""


def collect_tensors_of_fits(fits: Sequence[SavedFit]) -> dict[str, NDArray[np.generic]]:
    """The tensors of a file; all fits share w_q and w_k."""
    first = fits[0].module
    tensors: dict[str, NDArray[np.generic]] = {"w_q": first.w_q, "w_k": first.w_k}
    for fit in fits:
        pairs, index = fit.target.tocoo(), fit.number
        tensors[f"x.{index}"] = np.ascontiguousarray(fit.module.x)
        tensors[f"target.{index}.row"] = pairs.row.astype(np.int64)
        tensors[f"target.{index}.col"] = pairs.col.astype(np.int64)
        tensors[f"target.{index}.value"] = pairs.data
    return tensors


def build_fit_metadata(
    fits: Sequence[SavedFit], request: FitRequest, patterns: Sequence[str] = ()
) -> dict[str, str]:
    """The metadata of a file: the request, and the names of all requested patterns."""
    limits = {name: value for name, value in asdict(request).items() if name in LIMITS}
    names = list(patterns) or [fit.pattern for fit in fits]
    methods = {fit.number: fit.method for fit in fits}
    return {
        "format": FORMAT,
        "version": "1",
        "request": json.dumps(limits | {"logit_budget": repr(request.logit_budget)}),
        "patterns": json.dumps(names),
        "methods": json.dumps([methods.get(number, "") for number in range(len(names))]),
    }


def read_fits(path: Path) -> tuple[list[SavedFit], FitRequest]:
    """Read and check all patterns of a file, and the request they were fitted for."""
    if not path.is_file():
        raise UsageError(f"{path} does not exist or is not a file: check the path.")
    file = StoredArrays(path)
    tensors = {name: file.read_tensor(name) for name in file.names()}
    described = file.metadata
    numbers = sorted(parse_whole_number(name[2:]) or 0 for name in tensors if name.startswith("x."))
    if described.get("format") != FORMAT or not {"w_q", "w_k"} <= tensors.keys() or not numbers:
        raise InputError(f"{path} is no fitted module: `approximate(save_module=FILE)` writes one.")
    request = read_fit_request(path, described, tensors["w_q"])
    names = [read_name_list_from_metadata(path, described, key) for key in ("patterns", "methods")]
    fitted = [number for number, method in enumerate(names[1]) if method]
    if len(names[0]) != len(names[1]) or numbers != fitted:
        raise InputError(
            f"{path} names {len(fitted)} fitted patterns of {len(names[0])} but holds {len(numbers)}: write it again."
        )
    both = list(zip(*names, strict=True))
    return [
        read_fit_of_pattern(path, tensors, request, index, *both[index]) for index in fitted
    ], request


def list_patterns_without_fitted_module(path: Path) -> list[str]:
    """Names of requested patterns for which the file has no module."""
    described = StoredArrays(path).metadata
    names, methods = (
        read_name_list_from_metadata(path, described, key) for key in ("patterns", "methods")
    )
    return [name for name, method in zip(names, methods, strict=True) if not method]


def read_name_list_from_metadata(path: Path, described: Mapping[str, str], key: str) -> list[str]:
    try:
        return [str(name) for name in json.loads(described[key])]
    except (KeyError, TypeError, *BROKEN_JSON):
        raise InputError(f"{path} has no '{key}' in its metadata: write it again.") from None


def read_fit_request(
    path: Path, described: Mapping[str, str], w_q: NDArray[np.generic]
) -> FitRequest:
    try:
        limits = json.loads(described["request"])
        limits["logit_budget"] = float(limits["logit_budget"])
        if type(limits.get("causal", False)) is not bool:
            raise TypeError("whether keys are masked is said by true or false alone")
        return FitRequest(d=w_q.shape[1], **limits)
    except (KeyError, TypeError, IndexError, UsageError, *BROKEN_JSON):
        raise InputError(
            f"{path} has no readable request in its metadata: write it again."
        ) from None


def refuse_wrong_tensor_dtypes(
    path: Path, tensors: Mapping[str, NDArray[np.generic]], index: int
) -> None:
    """Refuse wrong dtypes: indices must be integers and all else real; a cast would drop digits."""
    places = (f"target.{index}.row", f"target.{index}.col")
    for name in ("w_q", "w_k", f"x.{index}", f"target.{index}.value", *places):
        kind = np.integer if name in places else np.floating
        if name in tensors and not np.issubdtype(tensors[name].dtype, kind):
            raise InputError(
                f"{path}: {name} holds {tensors[name].dtype} numbers, not {'whole' if name in places else 'real'} ones: "
                "write the file again."
            )


def read_fit_of_pattern(
    path: Path,
    tensors: Mapping[str, NDArray[Any]],
    request: FitRequest,
    index: int,
    pattern: str,
    method: str,
) -> SavedFit:
    """Read pattern `index` of the file, and check its dtypes, shapes and values."""
    refuse_wrong_tensor_dtypes(path, tensors, index)
    try:
        x, w_q, w_k = tensors[f"x.{index}"], tensors["w_q"], tensors["w_k"]
        row, col, value = (tensors[f"target.{index}.{part}"] for part in ("row", "col", "value"))
        length = len(x)
        target = csr_array(coo_array((value.astype(np.float64), (row, col)), (length, length)))
    except (KeyError, ValueError, TypeError) as error:
        raise InputError(
            f"{path}: pattern {index} is incomplete or out of range ({error})."
        ) from None
    if w_q.shape != w_k.shape or w_q.ndim != 2 or x.ndim != 2 or x.shape[1] != len(w_q):
        raise InputError(
            f"{path}: w_q {w_q.shape}, w_k {w_k.shape} and x.{index} {x.shape} do not fit together."
        )
    if not all(np.isfinite(part).all() for part in (x, w_q, w_k)):
        raise InputError(f"{path}: w_q, w_k or x.{index} holds a number that is not finite.")
    sums = np.asarray(target.sum(axis=1)).ravel()
    if (
        not (value > 0.0).all()
        or np.abs(sums - 1.0).max() > TARGET_ROW_SUM.tolerance_for_dtype()
        or target.nnz != len(value)
    ):
        raise InputError(
            f"{path}: the rows of target {index} must be positive, given once, and sum to one."
        )
    if request.causal and (col > row).any():
        raise InputError(
            f"{path}: target {index} attends to keys after its queries, which its request masks: write it again."
        )
    return SavedFit(
        pattern, method, ModuleArrays(w_q, w_k, x, request.dtype, request.causal), target, index
    )
