"""Synthetic networks and maps in files: `attn generate network` and `attn generate maps`."""

from pathlib import Path
from typing import Annotated

from attncli.declare.options import WRITES, Option
from attncli.errors import UsageError
from attncli.options.completion import complete_map
from attncli.options.shared import NetworkOptions, SwitchOptions, checked_seed
from attncli.python.question import How, question

Seed = Annotated[int, Option(help="Random seed. [default: 0]")]
Target = Annotated[
    Path,
    Option(
        "--output",
        "-o",
        metavar="FILE",
        typed_alone=WRITES,
        help="Safetensors file to write.",
    ),
]


@question()
def generate_network(
    *,
    output: Target,
    seed: Seed = 0,
    switches: SwitchOptions,
    network: NetworkOptions,
    how: How,
) -> Path:
    """A network's weights and embeddings, in float64, for `attn rank-collapse FILE` and for other programs.

    The file holds every part, so that all variants can be computed from it; switches such as --no-skip say which
    variant is meant, and `attn rank-collapse` then computes that one.
    """
    from attncli.analysis.network_sources import spec_from
    from attncli.io.tensor_files import save_tensors
    from attncli.io.tensor_names import require_tensor_file
    from attncli.limits import require_memory
    from attncli.networks.network_files import metadata, tensors
    from attncli.networks.weights import GeneratedNetwork

    source = GeneratedNetwork(spec_from(network), checked_seed(seed))
    variant = next(iter(switches.chosen())) if switches.given else "paper"
    require_tensor_file(output)
    spec = source.spec
    size = spec.layers * spec.layer_bytes + 8 * spec.tokens * spec.width
    require_memory(2 * size, "Writing this network", "lower `layers`, `tokens` or `width`")
    save_tensors(output, tensors(source), metadata(source, variant), how.say)
    return output


@question()
def generate_maps(
    *,
    output: Target,
    map: Annotated[
        list[str],
        Option(
            metavar="NAME[:PARAMETERS]",
            complete=complete_map,
            help="Add one layer of this kind (see `attn list maps`), as in iid:sigma=2 or window:8. Repeatable.",
        ),
    ],
    tokens: Annotated[int, Option(help="Number of queries and keys. [default: 64]")] = 64,
    heads: Annotated[int, Option(help="Number of draws of each map. [default: 1]")] = 1,
    seed: Seed = 0,
    how: How,
) -> Path:
    """Attention maps with known answers: one layer for every --map, [head, query, key] in float64."""
    import numpy as np

    from attncli.io.tensor_files import save_tensors
    from attncli.io.tensor_names import require_tensor_file
    from attncli.limits import require_memory
    from attncli.maps import MAPS
    from attncli.registry import call_spec

    if tokens < 1 or heads < 1:
        raise UsageError("`tokens` and `heads` must be at least 1.")
    require_tensor_file(output)
    size = 8 * len(map) * heads * tokens**2
    require_memory(2 * size, "Holding these maps", "lower `tokens`, `heads` or the number of maps")
    layers = {}
    for layer, text in enumerate(map):
        rng = np.random.default_rng([checked_seed(seed), layer])
        draws = [call_spec(MAPS, text, tokens=tokens, rng=rng) for _ in range(heads)]
        layers[f"layers.{layer}.attention"] = np.stack(draws)
    described = {"format": "attn-maps", "version": "1", "seed": str(seed), "maps": " ".join(map)}
    save_tensors(output, layers, described, how.say)
    return output
