"""Tensor parallelism: split each layer over the processes of torchrun, by transformers' plan for the model type.

The tensors are handed to transformers as ever, so what is hashed is what is loaded; each process reads its part of them.
"""

from itertools import product

from transformers import PreTrainedConfig, PreTrainedModel
from transformers.distributed.configuration_utils import DistributedConfig

from attncli.capture.softmax_attention.attention_site_names import ATTENDS
from attncli.distributed_ranks import read_launch_environment
from attncli.errors import InputError, UsageError
from attncli.forward_argument_types import Kwargs
from attncli.models.layer_sizes_from_config import (
    list_layer_configs,
    read_config_value,
    select_text_config,
)
from attncli.processes.divide_work_over_ranks import WORK
from attncli.processes.rank_communication import LINE

UNDERSTOOD = {
    "colwise",
    "rowwise",
    "colwise_gather_output",
    "rowwise_split_input",
    "replicated_with_grad_allreduce",
}
"""Styles of splitting an attention's layers that leave each process whole, consecutive heads, or all of them."""


def build_tensor_parallel_arguments(blank: PreTrainedModel) -> Kwargs:
    """Arguments that make transformers split the model; afterwards all processes work on every text together."""
    kind, size = blank.config.model_type, read_launch_environment().size
    require_plan_splitting_blocks(blank, kind)
    refuse_plan_splitting_heads(select_text_config(blank.config), kind, size)
    if not WORK.together:
        WORK.together = True
        LINE.use_short_timeout()
    return {"distributed_config": DistributedConfig(tp_plan="auto")}


def require_plan_splitting_blocks(blank: PreTrainedModel, kind: str) -> None:
    """Refuse a plan that only splits embeddings and outputs, not the blocks."""
    plan = blank.tp_plan or {}
    if not any("*" in name for name in plan):
        raise UsageError(
            f"`tensor_parallel`: transformers has no plan to split the blocks of '{kind}': use `device_map='auto'` in one process."
        )
    for name, style in plan.items():
        if any(ATTENDS.search(part) for part in name.split(".")) and style not in UNDERSTOOD:
            raise InputError(
                f"`tensor_parallel`: the plan for '{kind}' splits {name} as {style}, and which heads a process then holds "
                "is not understood: use `device_map='auto'` in one process."
            )


def refuse_plan_splitting_heads(config: PreTrainedConfig, kind: str, size: int) -> None:
    """Refuse plans that split a head of queries, keys or values over processes."""
    counts = product(list_layer_configs(config), ("num_attention_heads", "num_key_value_heads"))
    for each, name in counts:
        count = read_config_value(each, name)
        if isinstance(count, int) and count % size:
            raise UsageError(
                f"`tensor_parallel`: {size} processes cannot share the {count} {name} of this '{kind}' evenly."
            )
