"""`attn generate network`"""

from pathlib import Path

from attncli.declare.option_declarations import REQUIRED, WRITES, declare_option
from attncli.options.run_and_output import validate_seed
from attncli.options.synthetic_network import NetworkOptions, VariantSwitchOptions
from attncli.python.questions import RunContext, question

EXAMPLES = """attn generate network -o net.safetensors
attn generate network --layers 6 --norm layer --no-skip --seed 3 -o san.safetensors
attn rank-collapse net.safetensors
"""


SEED_OPTION = declare_option(default=0, help="Random seed. [default: 0]")
OUTPUT_OPTION = declare_option(
    "--output",
    "-o",
    default=REQUIRED,
    metavar="FILE",
    applies=WRITES,
    help="Safetensors file to write.",
)


@question()
def generate_network(
    *,
    output: Path = OUTPUT_OPTION,
    seed: int = SEED_OPTION,
    switches: VariantSwitchOptions,
    network: NetworkOptions,
    how: RunContext,
) -> Path:
    """A network's weights and embeddings, in float64, for `attn rank-collapse FILE` and for other programs.

    The file holds every part, so that all variants can be computed from it; switches such as --no-skip say which
    variant is meant, and `attn rank-collapse` then computes that one.
    """
    from attncli.io.tensor_file_extensions import require_safetensors_extension
    from attncli.io.tensor_files import save_safetensors_and_report
    from attncli.networks.network_files import build_network_metadata, collect_network_tensors
    from attncli.networks.network_weights import GeneratedNetwork
    from attncli.resource_limits import require_memory

    source = GeneratedNetwork(network.build_network_specification(), validate_seed(seed))
    variant = (
        next(iter(switches.choose_ablation_variants()))
        if switches.list_options_that_are_set()
        else "paper"
    )
    require_safetensors_extension(output)
    spec = source.spec
    size = spec.layers * spec.layer_weight_bytes + 8 * spec.tokens * spec.width
    require_memory(2 * size, "Writing this network", "lower `layers`, `tokens` or `width`")
    save_safetensors_and_report(
        output, collect_network_tensors(source), build_network_metadata(source, variant), how.say
    )
    return output
