"""Sizes that a config of transformers gives its layers, whatever it calls them; no torch is needed to read them."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from transformers import PreTrainedConfig


def config_value(config: "PreTrainedConfig", name: str) -> Any:
    """What it has under transformers' usual name, whatever its own is; read past the guard where layers differ in it."""
    return vars(config).get(config.attribute_map.get(name, name))


def per_layer_configs(config: "PreTrainedConfig") -> "Sequence[PreTrainedConfig]":
    """One for each layer where these have sizes of their own, else the one for all."""
    return config.per_layer_config if config.is_heterogeneous else (config,)


def head_counts(config: "PreTrainedConfig") -> set[int]:
    """All numbers of heads that its layers have; some types list one for every stage."""
    found = set()
    for each in per_layer_configs(config):
        said = config_value(each, "num_attention_heads")
        listed = said if isinstance(said, (list, tuple)) else [said]
        found |= {number for number in listed if isinstance(number, int)}
    return found


def configs_within(config: "PreTrainedConfig") -> "list[PreTrainedConfig]":
    """The config and those of its parts, such as a vision tower or a decoder."""
    parts = [getattr(config, name, None) for name in config.sub_configs]
    return [config, *(each for part in parts if part is not None for each in configs_within(part))]


LAYERS = ("num_hidden_layers", "encoder_layers", "decoder_layers", "num_decoder_layers")


def most_layers(config: "PreTrainedConfig") -> int | None:
    """How many layers the deepest stack of the model has; None where no part of the config says it as one number."""
    counts = [config_value(part, name) for part in configs_within(config) for name in LAYERS]
    return max((count for count in counts if isinstance(count, int)), default=None)
