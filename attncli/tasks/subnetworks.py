"""Sub-networks as the published scripts run them: one head of some layers, and none of the others.

In the layers of its path a sub-network is LN(one head's output): without the skip, without the norm's learned gain and
bias, and with attention that looks at what the sub-network's own layers gave. Layers that the path passes by are left
out whole, norms included. The outputs of several paths are added, normalised once more, and classified.
"""

from collections.abc import Sequence
from typing import Any

import torch.nn.functional as F
from torch import Tensor

from attncli.tasks.labeller import Labeller

EPSILON = 1e-12
"""Of every norm of BERT's."""


def run_again(network: Labeller, inputs: Tensor, paths: Sequence[tuple[int, ...]]) -> list[Tensor]:
    """The output [sequence, token, feature] of every path's sub-network.

    A path chooses 0 or a head from 1 on in every layer; where paths begin alike, that is run once.
    """
    states: dict[tuple[int, ...], Tensor] = {(): network.embedding(inputs)}
    block: Any  # transformers' classes have no types
    for layer, block in enumerate(network.blocks):
        begun = dict.fromkeys(path[: layer + 1] for path in paths)
        contexts: dict[tuple[int, ...], Tensor] = {}
        following = {}
        for path in begun:
            *before, head = path
            if head:
                given = tuple(before)
                if given not in contexts:
                    contexts[given] = block.self(states[given])[0]
                following[path] = one_head(block, contexts[given], head - 1)
            else:
                following[path] = states[tuple(before)]
        states = following
    return [states[path] for path in paths]


def one_head(block: Any, contexts: Tensor, head: int) -> Tensor:
    """A block's output with one head's context [sequence, token, head · value] alone."""
    width = block.self.attention_head_size
    own = slice(head * width, (head + 1) * width)
    dense = block.output.dense
    return plain_norm(F.linear(contexts[..., own], dense.weight[:, own], dense.bias))


def plain_norm(states: Tensor) -> Tensor:
    return F.layer_norm(states, states.shape[-1:], eps=EPSILON)
