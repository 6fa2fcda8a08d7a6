"""`attn generate network` and `attn generate maps`"""

import typer

from attncli.cli.help import Command, Group
from attncli.cli.run_question import writing_command_of
from attncli.commands.generate.command import generate_maps, generate_network

app = typer.Typer(
    cls=Group,
    help="Write a synthetic network or attention maps to a safetensors file.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

NETWORK_EXAMPLES = """attn generate network -o net.safetensors
attn generate network --layers 6 --norm layer --no-skip --seed 3 -o san.safetensors
attn rank-collapse net.safetensors
"""

MAPS_EXAMPLES = """attn generate maps --map uniform:causal=true --map iid:sigma=2 --heads 4 -o maps.safetensors
attn generate maps --map sink:0.9 --map window:8 --map induction:16 --tokens 128 -o maps.safetensors
"""

app.command("network", cls=Command, epilog=NETWORK_EXAMPLES)(writing_command_of(generate_network))
app.command("maps", cls=Command, epilog=MAPS_EXAMPLES)(writing_command_of(generate_maps))
