"""Broken networks, maps and fits, and what their numbers are by slow loops."""

import json
import math
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
from fuzz.forks import Case
from fuzz.material import Material
from fuzz.mutations import split_safetensors, spoilt_safetensors
from numpy.typing import NDArray
from oracles.network import log10_residuals

from attncli.networks.ablation_variants import VARIANTS

Array = NDArray[Any]

KINDS = {
    **{"F64": "<f8", "F32": "<f4", "F16": "<f2", "I64": "<i8", "I32": "<i4", "I16": "<i2"},
    **{"I8": "|i1", "U8": "|u1", "BOOL": "|u1", "U16": "<u2", "U32": "<u4", "U64": "<u8"},
}
DIGITS = 700
"""A key bias of 1e300 drops out of a softmax; fewer digits would lose the logits beside it."""
RESOLVED = -7.0
"""log10 r that a loop in float64 knows to four digits."""


def arrays(path: Path) -> dict[str, Array]:
    """Every tensor in float64, read by the format's own words."""
    header, data = split_safetensors(path.read_bytes())
    found = {}
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        raw = data[slice(*entry["data_offsets"])]
        if entry["dtype"] == "BF16":
            wide = np.frombuffer(raw, "<u2").astype(np.uint32) << np.uint32(16)
            found[name] = wide.view(np.float32).reshape(entry["shape"]).astype(np.float64)
        elif entry["dtype"] in KINDS:
            array = np.frombuffer(raw, KINDS[entry["dtype"]]).reshape(entry["shape"])
            found[name] = (array != 0 if entry["dtype"] == "BOOL" else array).astype(np.float64)
    return found


def rows_of(out: str, metric: str) -> list[dict[str, Any]]:
    return [
        row
        for row in json.loads(out)["rows"]
        if row["metric"] == metric and row["value"] is not None
    ]


def network(rng: Random, material: Material, folder: Path) -> Case:
    (folder / "net.safetensors").write_bytes(spoilt_safetensors(rng, rng.choice(material.networks)))
    return Case(["rank-collapse", "net.safetensors", "--format", "json"], wrong_residual)


def wrong_residual(folder: Path, out: str, code: int) -> str | None:
    """Every residual that plain float64 resolves."""
    path = folder / "net.safetensors"
    if {entry["dtype"] for name, entry in split_safetensors(path.read_bytes())[0].items() if name != "__metadata__"} != {"F64"}:  # fmt: skip
        return None  # the loop reads no other
    found = rows_of(out, "log10_residual")
    for variant in {row["variant"] for row in found}:
        switches = VARIANTS[variant]
        try:
            exact = log10_residuals(path, skip=switches.skip, mlp=switches.mlp, mlp_skip=switches.mlp_skip, digits=DIGITS)  # fmt: skip
        except (OverflowError, ZeroDivisionError):
            continue
        for row in found:
            true = exact[row["layer"]]
            if row["variant"] != variant or not math.isfinite(true) or true < RESOLVED:
                continue
            if abs(row["value"] - true) > 1e-6 * max(1.0, abs(true)):
                return f"{variant}, layer {row['layer']}: {row['value']} and not {true}"
    return None


METRICS = ("entropy", "sink", "participation", "s1", "self_attention", "distance")


def maps(rng: Random, material: Material, folder: Path) -> Case:
    (folder / "maps.safetensors").write_bytes(spoilt_safetensors(rng, rng.choice(material.maps)))
    words = ["inspect-maps", "maps.safetensors", "--metric", ",".join(METRICS), "--format", "json"]
    return Case(words, wrong_map_number)


def wrong_map_number(folder: Path, out: str, code: int) -> str | None:
    held = arrays(folder / "maps.safetensors")
    header, _ = split_safetensors((folder / "maps.safetensors").read_bytes())
    said = (header.get("__metadata__") or {}).get("heads")
    numbers = json.loads(said) if said else {}
    for name, weights in held.items():
        if not name.endswith("attention"):
            continue
        seen = visible(held, name, weights, said is not None)
        layer = int(name.split("layers.")[1].split(".")[0])
        alone = (
            sum(f"layers.{layer}." in other and other.endswith("attention") for other in held) == 1
        )
        for index, number in enumerate(numbers.get(name) or range(len(weights))):
            for metric in METRICS:
                at = [row for row in rows_of(out, metric) if row["layer"] == layer and row["head"] == number and not row.get("uniform")]  # fmt: skip
                if not alone or len(at) != 1:
                    continue
                true = dense(metric, weights[index], seen)
                near = math.isclose(at[0]["value"], true, rel_tol=2e-5, abs_tol=2e-6)
                if math.isfinite(true) and not near:
                    return f"{metric} of {name}, head {number}: {at[0]['value']} and not {true}"
    return None


def visible(held: dict[str, Array], name: str, weights: Array, described: bool) -> Array:
    """What the file says, else what no head looks at."""
    mask = held.get(name.removesuffix("attention") + "visible")
    if mask is not None:
        return mask != 0
    queries, keys = weights.shape[1:]
    behind = np.tril(np.ones((queries, keys), bool))
    looks_back = not described and queries == keys > 1 and not (weights * ~behind).any()
    return behind if looks_back else np.ones((queries, keys), bool)


def dense(metric: str, a: Array, seen: Array) -> float:
    """The definition, densely."""
    i, j = np.indices(a.shape)
    with np.errstate(all="ignore"):
        if metric == "entropy":
            return float(-np.where(a > 0, a * np.log(a), 0.0).sum(1).mean())
        if metric == "sink":
            return float(a[:, 0].sum() / seen[:, 0].sum())
        if metric == "participation":
            return float((1 / (a**2).sum(1)).mean())
        if metric == "s1":
            return float(np.linalg.svd(a, compute_uv=False)[0])
        if metric == "self_attention":
            return float(a[(i == j) & seen].mean())
        return float((a * abs(i - j)).sum(1).mean())


def fit(rng: Random, material: Material, folder: Path) -> Case:
    (folder / "fit.safetensors").write_bytes(spoilt_safetensors(rng, rng.choice(material.fits)))
    return Case(["verify-fit", "fit.safetensors", "--format", "json"], wrong_fit)


def wrong_fit(folder: Path, out: str, code: int) -> str | None:
    """Of the modules in float64 and float32, whose products a loop can make."""
    held = arrays(folder / "fit.safetensors")
    request = json.loads(out)["source"]["request"]
    if request["dtype"] not in ("float64", "float32"):
        return None
    kind = np.float64 if request["dtype"] == "float64" else np.float32
    w_q, w_k = held["w_q"].astype(kind), held["w_k"].astype(kind)
    for index in range(sum(name.startswith("x.") for name in held)):
        x = held[f"x.{index}"].astype(kind)
        logits = ((x @ w_q) @ (x @ w_k).T).astype(np.float64)
        if request["causal"]:
            logits[np.triu_indices(len(x), 1)] = -np.inf
        seen = logits[np.tril_indices(len(x))] if request["causal"] else logits
        if not np.isfinite(seen).all() or np.abs(logits[np.isfinite(logits)]).max() > 1e4:
            continue
        weights = np.exp(logits - logits.max(1, keepdims=True))
        weights /= weights.sum(1, keepdims=True)
        target = np.zeros_like(weights)
        target[held[f"target.{index}.row"].astype(int), held[f"target.{index}.col"].astype(int)] = held[f"target.{index}.value"]  # fmt: skip
        true = float(0.5 * np.abs(weights - target).sum(1).max())
        rows = [row for row in json.loads(out)["rows"] if row["metric"] == "total_variation"]
        found = [{"value": math.inf if row["value"] is None else row["value"]} for row in rows]
        if index < len(found) and not math.isclose(
            found[index]["value"], true, rel_tol=1e-3, abs_tol=1e-4
        ):
            return f"total variation of fit {index}: {found[index]['value']} and not {true}"
    return None
