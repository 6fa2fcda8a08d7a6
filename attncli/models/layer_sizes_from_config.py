"""Sizes that a config of transformers gives its layers, whatever it calls them; no torch is needed to read them."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from transformers import PreTrainedConfig, PretrainedConfig


def read_config_value(config: "PreTrainedConfig", name: str) -> Any:
    """The value under transformers' usual name, whatever the config's own; read past the guard where layers differ."""
    return vars(config).get(config.attribute_map.get(name, name))


def list_layer_configs(config: "PreTrainedConfig") -> "Sequence[PreTrainedConfig]":
    """One config for each layer where these have sizes of their own, else the one for all."""
    return config.per_layer_config if config.is_heterogeneous else (config,)


def list_head_counts(config: "PreTrainedConfig") -> set[int]:
    """All numbers of heads of its layers; some types list one for every stage."""
    found = set()
    for each in list_layer_configs(config):
        heads = read_config_value(each, "num_attention_heads")
        listed = heads if isinstance(heads, (list, tuple)) else [heads]
        found |= {number for number in listed if isinstance(number, int)}
    return found


def list_nested_configs(config: "PreTrainedConfig") -> "list[PreTrainedConfig]":
    """The config and those of its parts, such as a vision tower or a decoder."""
    parts = [getattr(config, name, None) for name in config.sub_configs]
    return [
        config,
        *(each for part in parts if part is not None for each in list_nested_configs(part)),
    ]


LAYERS = ("num_hidden_layers", "encoder_layers", "decoder_layers", "num_decoder_layers")


def find_deepest_layer_count(config: "PreTrainedConfig") -> int | None:
    """The layers of the model's deepest stack; None where no config gives a single number."""
    counts = [
        read_config_value(part, name) for part in list_nested_configs(config) for name in LAYERS
    ]
    return max((count for count in counts if isinstance(count, int)), default=None)


def select_text_config(config: "PretrainedConfig") -> "PretrainedConfig":
    """The text config by transformers' own method; where several parts have one (MusicGen), the encoder's, which reads."""
    try:
        return config.get_text_config()
    except ValueError:  # transformers' error for an ambiguous text config
        return config.get_text_config(encoder=True)
