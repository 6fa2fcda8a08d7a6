"""Which class of transformers runs a config: the body, without a head, where there is one."""

import importlib
import inspect
from collections.abc import Iterator
from typing import Any

from transformers import PreTrainedConfig, PreTrainedModel
from transformers.models.auto.modeling_auto import MODEL_MAPPING, MODEL_MAPPING_NAMES

from attncli.errors import InputError


def body_class(config: PreTrainedConfig) -> type[PreTrainedModel]:
    """The class that AutoModel takes, or the most body-like class made for this config."""
    if config.model_type in MODEL_MAPPING_NAMES:
        found: Any = MODEL_MAPPING[type(config)]
        chosen: type[PreTrainedModel] = found[0] if isinstance(found, tuple) else found
        return chosen
    classes = sorted(classes_for(type(config)), key=headness)
    if not classes:
        raise InputError(
            f"model type '{config.model_type}' has no model class in transformers: it is a part of other types."
        )
    return classes[0]


def classes_for(kind: type[PreTrainedConfig]) -> list[type[PreTrainedModel]]:
    """Model classes of the config's own modelling file that declare this very config."""
    folder = kind.__module__.rpartition(".configuration_")
    try:
        module = importlib.import_module(f"{folder[0]}.modeling_{folder[2]}")
    except ModuleNotFoundError:
        return []
    return [
        found
        for found in vars(module).values()
        if inspect.isclass(found)
        and issubclass(found, PreTrainedModel)
        and found.__module__ == module.__name__
        and getattr(found, "config_class", None) is kind
        and "forward" in vars(found)
    ]


def headness(found: type[PreTrainedModel]) -> tuple[bool, bool, int]:
    """Bodies before heads: `XModel` before `XEncoder` before `XForCausalLM`."""
    name = found.__name__
    return ("For" in name, not name.endswith("Model"), len(name))


def configs_of(config: PreTrainedConfig) -> Iterator[PreTrainedConfig]:
    """The config and all nested in it."""
    yield config
    for value in vars(config).values():
        if isinstance(value, PreTrainedConfig):
            yield from configs_of(value)
