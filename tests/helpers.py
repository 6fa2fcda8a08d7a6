"""Small things that several tests need."""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from oracles.network import log10_residuals
from safetensors.numpy import save_file

from attncli.analysis.rank_collapse.network_variant_runs import run_network_in_all_variants
from attncli.maths.common_row_arithmetic.common_row_plus_deviation import SplitState
from attncli.networks.ablation_variants import (
    VARIANTS,
    AblationSwitches,
    add_variants_without_outlier,
)
from attncli.networks.block_forward import run_block
from attncli.networks.network_files import (
    FileNetwork,
    build_network_metadata,
    collect_network_tensors,
)
from attncli.networks.network_spec import NetworkSpec
from attncli.networks.network_weights import GeneratedNetwork, Network

LONG = 600.0
"""Seconds: only what never comes takes as long, however busy the machine is."""

ALL_VARIANTS: Mapping[str, AblationSwitches] = add_variants_without_outlier(VARIANTS)


def saved(path: Path, spec: NetworkSpec, seed: int = 0) -> FileNetwork:
    """A generated network, written to a file and opened."""
    network = GeneratedNetwork(spec, seed)
    save_file(collect_network_tensors(network), path, build_network_metadata(network, "paper"))
    return FileNetwork(path)


def curve(network: Network, variant: str) -> list[float]:
    """log10 r at every state, by the package."""
    chosen = {variant: ALL_VARIANTS[variant]}
    found = run_network_in_all_variants(network, chosen, ["log10_residual"], lambda: None)
    return found[variant].values["log10_residual"]


def oracle_curve(path: Path, variant: str, digits: int | None) -> list[float]:
    """log10 r at every state, by the slow loop over the saved file."""
    switches = ALL_VARIANTS[variant]
    return log10_residuals(
        path,
        skip=switches.skip,
        mlp=switches.mlp,
        mlp_skip=switches.mlp_skip,
        remove_outlier=switches.remove_outlier,
        digits=digits,
    )


def final_state(
    spec: NetworkSpec, variant: str, embeddings: Any = None, seed: int = 0
) -> SplitState:
    """The last state of a generated network, optionally from other embeddings."""
    network = GeneratedNetwork(spec, seed)
    state = SplitState.from_states(
        network.embeddings() if embeddings is None else np.asarray(embeddings)
    )
    for index in range(spec.layers):
        state = run_block(state, network.layer_weights(index), spec, ALL_VARIANTS[variant])
    return state


def digits_for(curve: list[float], variant: str) -> int:
    """Decimal digits that resolve such a curve (E is quadratic in the residual; P - 11^T/n must not drown), at most 2000.

    Where a saturated network's residual lies deeper still, `worst_difference` leaves those states out.
    """
    deepest = sorted(-value for value in curve if math.isfinite(value))[-2:]
    enough = 60 + 2.5 * sum(max(0.0, value) for value in deepest)
    return int(min(2000, max(enough, 1500 if variant.endswith("-outlier") else 0)))


def worst_difference(ours: list[float], exact: list[float], digits: int) -> float:
    """Largest |Δ log10 r| / max(1, |log10 r|) over the states that we and the oracle's digits resolve."""
    worst = 0.0
    for mine, true in zip(ours, exact, strict=True):
        if math.isnan(mine) or mine == true or max(mine, true) < 40 - digits:
            continue
        worst = max(worst, abs(mine - true) / max(1.0, abs(true)))
    return worst
