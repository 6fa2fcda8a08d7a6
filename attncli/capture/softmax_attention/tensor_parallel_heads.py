"""Gather heads that tensor parallelism divides over processes, strip by strip, in their true order.

Each process has the weights of some consecutive heads, and computes their rows alone. All processes receive whole
strips, so all later code sees one model, and all processes come to the same result.
"""

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed import ProcessGroup

from attncli.capture.softmax_attention.attention_interface import Strip
from attncli.errors import InputError
from attncli.forward_argument_types import Output


def find_tensor_parallel_group(model: nn.Module) -> Output:
    """The process group that shares the model's weights; None where this process has them all."""
    for weight in model.parameters():
        mesh = getattr(weight, "device_mesh", None)
        if mesh is not None:
            return mesh.get_group()
    return None


def gather_heads_of_all_processes(
    strip: Strip, module: nn.Module, group: ProcessGroup | None
) -> Strip:
    """Gather the strips of all processes' heads into one."""
    own, size = strip.weights.shape[1], dist.get_world_size(group)
    heads = read_head_count_from_config(module)
    if own == heads:  # this attention is not split
        return strip
    if own * size != heads:
        raise InputError(
            f"{type(module).__name__} computes {own} of {heads or 'an unknown number of'} heads in each of {size} processes: "
            "which heads these are is not understood; run it without `tensor_parallel`."
        )
    outputs, scores = strip.outputs, strip.scores
    return strip._replace(
        weights=all_gather_along_dimension(strip.weights, 1, group),
        outputs=None if outputs is None else all_gather_along_dimension(outputs, 2, group),
        scores=all_gather_along_dimension(scores, 1, group)
        if scores is not None and scores.shape[1] == own
        else None,
        sides=None,  # other processes' values and scores are not here
    )


def read_head_count_from_config(module: nn.Module) -> int:
    """The number of heads by the module's own config; 0 where it is unknown or differs between layers."""
    config = getattr(module, "config", None)
    if getattr(config, "is_heterogeneous", False):
        return 0
    found = getattr(config, "num_attention_heads", 0)
    return found if isinstance(found, int) else 0


def all_gather_along_dimension(tensor: Tensor, dim: int, group: ProcessGroup | None) -> Tensor:
    """Concatenate the processes' parts along one dimension, in the order of their ranks."""
    mine = tensor.contiguous()
    parts = [torch.empty_like(mine) for _ in range(dist.get_world_size(group))]
    dist.all_gather(parts, mine, group)
    return torch.cat(parts, dim)
