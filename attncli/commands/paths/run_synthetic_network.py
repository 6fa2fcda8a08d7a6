"""From SOURCE and the options of `attn paths` to a study of synthetic networks."""

from collections.abc import Mapping, Sequence
from functools import partial

from attncli.analysis import Study
from attncli.analysis.paths.path_metrics import OWN_METRICS
from attncli.analysis.paths.path_selection import parse_residual_path
from attncli.analysis.source_argument_checks import describe_network_source
from attncli.commands.paths.options import PathOptions
from attncli.commands.paths.synthetic.output_shares_by_head import (
    measure_network_output_shares_by_head,
)
from attncli.commands.paths.synthetic.path_length_report import measure_paths_of_synthetic_networks
from attncli.commands.paths.synthetic.single_paths import (
    measure_requested_network_paths,
    measure_sampled_network_paths,
)
from attncli.errors import require_known_names
from attncli.gates import Condition
from attncli.metrics import METRICS
from attncli.model_and_file_sources import Source
from attncli.networks.network_weights import GeneratedNetwork, Network
from attncli.options.run_and_output import RunOptions, split_comma_separated_names
from attncli.options.synthetic_network import NetworkOptions

MODEL_METRICS = ("loss", "full_loss")
"""Metrics of next-token models only."""

DEFAULT_METRICS = ("log10_residual", "stable_rank")


def prepare_network_output_by_path_length(
    source: Source,
    options: PathOptions,
    network: NetworkOptions,
    run: RunOptions,
    conditions: Sequence[Condition],
) -> Study:
    """The terms of synthetic networks by path length."""
    networks, identity = open_or_generate_networks(source, network, run)
    metrics = collect_requested_and_gated_metrics(options.metric or DEFAULT_METRICS, conditions)
    return partial(measure_paths_of_synthetic_networks, networks, options.skip, metrics, identity)


def open_or_generate_networks(
    source: Source, network: NetworkOptions, run: RunOptions
) -> tuple[Sequence[Network], Mapping[str, object]]:
    networks: Sequence[Network]
    if source.kind == "synthetic":
        spec = network.build_network_specification()
        networks = [GeneratedNetwork(spec, seed) for seed in run.list_seeds()]
    else:
        from attncli.networks.network_files import FileNetwork

        networks = [FileNetwork(source.path)]
    return networks, describe_network_source(source)


def collect_requested_and_gated_metrics(
    names_provided: Sequence[str], conditions: Sequence[Condition], of_model: bool = False
) -> list[str]:
    """The requested columns and those that gates need; unknown names are refused before the work."""
    known = METRICS.names()
    own = [*OWN_METRICS, *(MODEL_METRICS if of_model else ())]
    names = split_comma_separated_names(names_provided)
    gated = [one.metric for one in conditions if one.metric not in own]
    require_known_names("metric", names, known)
    require_known_names("metric in the gate", gated, [*known, *own])
    return list(dict.fromkeys([*names, *gated]))


def prepare_network_single_paths(
    source: Source, options: PathOptions, network: NetworkOptions, run: RunOptions
) -> Study:
    """Paths one by one, or by the head that they go through."""
    networks, identity = open_or_generate_networks(source, network, run)
    if options.by is not None:
        return partial(measure_network_output_shares_by_head, networks, options.skip, identity)
    if options.sample is not None:
        return partial(
            measure_sampled_network_paths, networks, options.skip, options.sample, identity
        )
    spec = networks[0].spec
    heads = [spec.heads] * spec.layers
    named = [parse_residual_path(text, heads, options.skip) for text in options.path or ()]
    return partial(
        measure_requested_network_paths,
        networks,
        options.skip,
        list(dict.fromkeys(named)),
        identity,
    )
