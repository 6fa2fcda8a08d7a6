"""Networks from SOURCE and the network options, and what a report says of where they come from."""

import hashlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from attncli.networks.spec import NetworkSpec
from attncli.options.network import NetworkOptions
from attncli.options.shared import RunOptions
from attncli.records import Facts, JsonObject
from attncli.sources import (
    Source,
)

if TYPE_CHECKING:
    from attncli.networks.network_files import FileNetwork
    from attncli.networks.weights import GeneratedNetwork

SYNTHETIC: Facts = {"kind": "synthetic"}


def build_network_spec(options: NetworkOptions) -> NetworkSpec:
    """The network that the options describe."""
    sizes: dict[str, Any] = options.collect_set_values()
    return NetworkSpec(**sizes)


def generate_networks(spec: NetworkSpec, run: RunOptions) -> "Sequence[GeneratedNetwork]":
    from attncli.networks.weights import GeneratedNetwork

    return [GeneratedNetwork(spec, seed) for seed in run.all_seeds()]


def load_network(source: Source) -> "FileNetwork":
    """Load a saved network, which fixes its own sizes, kinds and seed."""
    from attncli.networks.network_files import FileNetwork

    return FileNetwork(source.path)


def source_identity(source: Source) -> JsonObject:
    with source.path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return {"kind": "network file", "path": source.name, "sha256": digest}
