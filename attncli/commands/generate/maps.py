"""`attn generate maps`"""

from pathlib import Path

from attncli.commands.generate.network import OUTPUT_OPTION, SEED_OPTION
from attncli.declare.option_declarations import REQUIRED, declare_option
from attncli.errors import UsageError
from attncli.options.run_and_output import validate_seed
from attncli.options.value_completion import complete_map
from attncli.python.questions import RunContext, question

EXAMPLES = """attn generate maps --map uniform:causal=true --map iid:sigma=2 --heads 4 -o maps.safetensors
attn generate maps --map sink:0.9 --map window:8 --map induction:16 --tokens 128 -o maps.safetensors
"""


@question()
def generate_maps(
    *,
    output: Path = OUTPUT_OPTION,
    map: list[str] = declare_option(
        default=REQUIRED,
        metavar="NAME[:PARAMETERS]",
        complete=complete_map,
        help="Add one layer of this kind (see `attn list maps`), as in iid:sigma=2 or window:8. Repeatable.",
    ),
    tokens: int = declare_option(default=64, help="Number of queries and keys. [default: 64]"),
    heads: int = declare_option(default=1, help="Number of draws of each map. [default: 1]"),
    seed: int = SEED_OPTION,
    how: RunContext,
) -> Path:
    """Attention maps with known answers: one layer per kind of map, [head, query, key] in float64."""
    import numpy as np

    from attncli.io.tensor_file_extensions import require_safetensors_extension
    from attncli.io.tensor_files import save_safetensors_and_report
    from attncli.maps import MAPS
    from attncli.registry import call_entry_from_text
    from attncli.resource_limits import require_memory

    if tokens < 1 or heads < 1:
        raise UsageError("`tokens` and `heads` must be at least 1.")
    require_safetensors_extension(output)
    size = 8 * len(map) * heads * tokens**2
    require_memory(2 * size, "Holding these maps", "lower `tokens`, `heads` or the number of maps")
    layers = {}
    for layer, text in enumerate(map):
        rng = np.random.default_rng([validate_seed(seed), layer])
        draws = [call_entry_from_text(MAPS, text, tokens=tokens, rng=rng) for _ in range(heads)]
        layers[f"layers.{layer}.attention"] = np.stack(draws)
    described = {"format": "attn-maps", "version": "1", "seed": str(seed), "maps": " ".join(map)}
    save_safetensors_and_report(output, layers, described, how.say)
    return output
