"""Swap functions of transformers' attention interface while a model runs: no other file does."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from torch import nn
from transformers import AttentionInterface, AttentionMaskInterface, PreTrainedConfig

from attncli.forward_argument_types import Function

EAGER = "eager"


@contextmanager
def swap_attention_functions(
    attentions: Mapping[str, Function], masks: Mapping[str, Function] | None = None
) -> Iterator[None]:
    """Within, these functions are registered under these names.

    Under the model's own names, mostly `eager`, which transformers leaves empty: models test for it before they make
    masks and biases, so that another name would not do.
    """
    swapped = [
        (AttentionInterface._global_mapping, attentions),
        (AttentionMaskInterface._global_mapping, masks or {}),
    ]
    before = [(table, name, table.get(name)) for table, new in swapped for name in new]
    try:
        for table, new in swapped:
            table.update(new)
        yield
    finally:
        for table, name, function in before:
            if function is None:
                del table[name]
            else:
                table[name] = function


def find_registered_attention_function(name: str) -> Function | None:
    """The function of that name; None: each model has its own."""
    found: Function | None = AttentionInterface._global_mapping.get(name)
    return found


@contextmanager
def force_eager_attention(model: nn.Module) -> Iterator[None]:
    """Set all configs of the model to `eager`, and restore them afterwards."""
    configs = {id(config): config for config in iter_module_configs(model)}.values()
    before = [(config, config._attn_implementation_internal) for config in configs]
    try:
        for config in configs:
            config._attn_implementation_internal = EAGER
        yield
    finally:
        for config, implementation in before:
            config._attn_implementation_internal = implementation


def iter_module_configs(model: nn.Module) -> Iterator[PreTrainedConfig]:
    """Iterate over the configs of all modules of the model, with the configs inside them."""
    waiting = [getattr(module, "config", None) for module in model.modules()]
    while waiting:
        config = waiting.pop()
        if isinstance(config, PreTrainedConfig):
            yield config
            waiting += [getattr(config, name, None) for name in config.sub_configs]
