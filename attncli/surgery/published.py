"""What the code behind the published figures leaves in ALBERT when it takes the MLP out.

It replaces the two linear maps of the MLP by identities, so that its activation, its skip and its norm stay:
`LN(gelu(y) + y)`. In BERT and XLNet it removes the whole sublayer, LayerNorm included.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from torch import nn

from attncli.networks.variants import Switches
from attncli.surgery.anatomy import Anatomy
from attncli.watching.stacks.blocks import blocks_of
from attncli.watching.wrapping import around_forwards


@contextmanager
def activation_left_in(anatomy: Anatomy, switches: Switches) -> Iterator[Switches]:
    """Where the switches ask for it, ALBERT's MLP is reduced to its activation; yields what is left to switch off."""
    blocks = blocks_of(anatomy.stacks)
    albert = {block for block in blocks if type(block).__name__ == "AlbertLayer"}
    if switches.mlp or not switches.as_published or not albert:
        yield switches
        return
    maps = [getattr(block, name) for block in albert for name in ("ffn", "ffn_output")]
    with around_forwards(maps, identity):
        yield replace(switches, mlp=True, mlp_skip=True)


def identity(forward: Any, module: nn.Module, args: Any, kwargs: Any) -> Any:
    """What the map is given, in place of what it makes of it."""
    return args[0]
