"""The gates of synthetic networks, measured as those of trained heads are."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from attncli.analysis.means_and_confidence_intervals import summarize_values
from attncli.analysis.rank_collapse.network_variant_runs import (
    run_block_or_none_if_residual_is_lost,
)
from attncli.maths.common_row_arithmetic.common_row_plus_deviation import SplitState
from attncli.maths.number_format import format_number
from attncli.metrics.attention import ATTENTION
from attncli.metrics.attention._gate_statistics import GateObservations
from attncli.networks.ablation_variants import AblationSwitches
from attncli.networks.gated_heads import compute_gated_heads
from attncli.networks.network_weights import Network
from attncli.records import Finding, Report, Row, View

OF_GATES = "gates"
NO_NUMBER = "the head writes nothing, or its gate or its weight on token 0 does not vary"

Measured = dict[tuple[str, int, int], list[float]]
"""By metric, layer and head, one number of each seed."""


def list_output_gate_metrics() -> list[str]:
    return [
        name for name in ATTENTION.names() if ATTENTION.declaration_of_entry(name).of == OF_GATES
    ]


def add_output_gate_rows(
    report: Report, networks: Sequence[Network], variants: Mapping[str, AblationSwitches]
) -> Report:
    """The report with the gates of all heads, in plain float64."""
    rows, findings = [], []
    for variant, switches in variants.items():
        found: Measured = {}
        for network in networks:
            measure_output_gates_of_network(found, network, switches, variant)
        own = list(build_output_gate_rows(found, variant))
        rows += own
        findings.append(Finding(variant, describe_output_gates(own)))
    return replace(
        report,
        rows=(*report.rows, *rows),
        metrics={
            **report.metrics,
            **{name: ATTENTION.definition(name) for name in list_output_gate_metrics()},
        },
        views=(*report.views, *(build_output_gate_table(variant) for variant in variants)),
        findings=(*report.findings, *findings),
    )


def measure_output_gates_of_network(
    measured: Measured, network: Network, switches: AblationSwitches, variant: str
) -> None:
    """Adds one network's numbers; nan from the layer on where there is no state."""
    spec = network.spec
    state: SplitState | None = SplitState.from_states(network.embeddings())
    for index in range(spec.layers):
        layer = network.layer_weights(index)
        gates = None
        if state is not None:
            seen = compute_gated_heads(state, layer, spec)
            gates = GateObservations(seen.gate, seen.context, layer.w_o, seen.sink)
        for name in list_output_gate_metrics():
            values = np.full(spec.heads, np.nan) if gates is None else ATTENTION[name](gates)
            for head, value in enumerate(values):
                measured.setdefault((name, index, head), []).append(float(value))
        state = run_block_or_none_if_residual_is_lost(
            state, layer, spec, switches, f"{variant}, layer {index}"
        )


def build_output_gate_rows(measured: Measured, variant: str) -> Iterator[Row]:
    for (name, layer, head), values in measured.items():
        row = summarize_values(
            name,
            ATTENTION.declaration_of_entry(name).unit,
            values,
            "",
            variant=variant,
            layer=layer,
            head=head,
        )
        yield row if row.value is not None else replace(row, note=NO_NUMBER)


def describe_output_gates(rows: Sequence[Row]) -> str:
    """The span of three of the numbers over all heads."""
    parts = []
    for name in ("gate_mean", "gate_closed", "gate_effect"):
        values = [row.value for row in rows if row.metric == name and row.value is not None]
        if values:
            parts.append(f"{name} {format_number(min(values))} … {format_number(max(values))}")
    return "gates: " + (", ".join(parts) or NO_NUMBER)


def build_output_gate_table(variant: str) -> View:
    return View(
        f"Gates of {variant}",
        "layer.head",
        tuple(list_output_gate_metrics()),
        where={"variant": variant},
    )
