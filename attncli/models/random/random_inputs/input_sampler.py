"""The sampler from which all makers draw their inputs."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedConfig, PreTrainedModel

from attncli.errors import InputError
from attncli.models.layer_sizes_from_config import read_config_value
from attncli.models.model_classes import iter_nested_configs

SPECIAL_IDS = re.compile(r".*(_token_id|_token_index)s?|(pad|bos|eos|unk|mask|sep|cls)_index")


@dataclass(frozen=True)
class InputSampler:
    """Draws random inputs for the makers."""

    model: PreTrainedModel
    tokens: int
    generator: torch.Generator
    names: frozenset[str]
    """All inputs that will be made: one may depend on another."""
    small: bool = False
    """Whether images are of a few patches, and not of the model's own size."""

    @property
    def config(self) -> PreTrainedConfig:
        return self.model.config

    @property
    def model_type(self) -> str:
        return str(self.config.model_type)

    def read_config_size(self, *names: str, default: int | None = None) -> int:
        """The first whole number that the config, or a nested one, has under one of the names."""
        for config in iter_nested_configs(self.config):
            for name in names:
                value = read_config_value(config, name)
                value = value[0] if isinstance(value, (list, tuple)) and value else value
                if isinstance(value, int) and not isinstance(value, bool):
                    return value
        if default is None:
            raise InputError(
                f"{type(self.config).__name__} says nothing of {names[0]}: inputs cannot be made up."
            )
        return default

    @property
    def hidden_size(self) -> int:
        return self.read_config_size("hidden_size", "d_model", "embed_dim", "hidden_dim", "dim")

    def sample_normal_floats(self, *shape: int) -> Tensor:
        """Standard normal numbers in the model's dtype."""
        return torch.randn(shape, generator=self.generator).to(self.model.dtype)

    def sample_token_ids(self, vocabulary: int, *shape: int) -> Tensor:
        """Random ids, none of them special."""
        special = set(iter_special_token_ids(self.config))
        usual = torch.tensor([i for i in range(vocabulary) if i not in special] or [0])
        return usual[torch.randint(len(usual), shape, generator=self.generator)]


def iter_special_token_ids(config: PreTrainedConfig) -> Iterator[int]:
    """Ids with a special meaning: padding, ends, image positions."""
    for nested in iter_nested_configs(config):
        for name, value in vars(nested).items():
            if SPECIAL_IDS.fullmatch(name):
                values = value if isinstance(value, (list, tuple)) else [value]
                yield from (each for each in values if isinstance(each, int))


Maker = Callable[[InputSampler], Any]
"""Makes one input of a forward."""


def sample_feature_sequence(drawn: InputSampler) -> Tensor:
    """[item, token, feature]"""
    return drawn.sample_normal_floats(1, drawn.tokens, drawn.hidden_size)


def make_features_maker(name: str, default: int = 1) -> Callable[[InputSampler], Tensor]:
    """[item, token, feature], the number of features given by an attribute."""
    return lambda drawn: drawn.sample_normal_floats(
        1, drawn.tokens, drawn.read_config_size(name, default=default)
    )
