"""Reproduce what the code behind the published figures leaves in ALBERT without its MLP.

It replaces the two linear maps of the MLP by identities, so that its activation, its skip and its norm stay:
`LN(gelu(y) + y)`. In BERT and XLNet it removes the whole sublayer, LayerNorm included.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace

from torch import nn

from attncli.ablation.block_structure import BlockAnatomy
from attncli.capture.forward_wrappers import wrap_forwards
from attncli.capture.model_structure.blocks import collect_distinct_blocks
from attncli.forward_argument_types import Args, Function, Kwargs, Output
from attncli.networks.ablation_variants import AblationSwitches


@contextmanager
def keep_albert_activation(
    anatomy: BlockAnatomy, switches: AblationSwitches
) -> Iterator[AblationSwitches]:
    """Reduce ALBERT's MLP to its activation where the switches request it; yield the switches that are left to apply."""
    albert = find_albert_layers_without_mlp(anatomy, switches)
    if not albert:
        yield switches
        return
    maps = [getattr(block, name) for block in albert for name in ("ffn", "ffn_output")]
    with wrap_forwards(maps, return_forward_input):
        yield replace(switches, mlp=True, mlp_skip=True)


def find_albert_layers_without_mlp(
    anatomy: BlockAnatomy, switches: AblationSwitches
) -> set[nn.Module]:
    """ALBERT's layers, where a variant without MLP is the published one."""
    if switches.mlp or not switches.as_published:
        return set()
    blocks = collect_distinct_blocks(anatomy.stacks)
    return {block for block in blocks if type(block).__name__ == "AlbertLayer"}


def describe_published_albert_variants(
    anatomy: BlockAnatomy, variants: Mapping[str, AblationSwitches]
) -> Iterator[str]:
    """Describe which variants are not quite without MLP."""
    names = [
        name
        for name, switches in variants.items()
        if find_albert_layers_without_mlp(anatomy, switches)
    ]
    if names:
        yield (
            f"{', '.join(names)}: of ALBERT's MLP LN(gelu(y) + y) stays, as in the published code; "
            "`variants='pure'` leaves it out."
        )


def return_forward_input(
    forward: Function, module: nn.Module, args: Args, kwargs: Kwargs
) -> Output:
    """Return the map's input instead of its output."""
    return args[0]
