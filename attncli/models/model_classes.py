"""The class of transformers that runs a config: the body, without a head, where there is one; the arguments of its forward."""

import importlib
import inspect
import pkgutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from types import ModuleType
from typing import Any

from torch import nn
from transformers import PreTrainedConfig, PreTrainedModel
from transformers.models.auto.modeling_auto import MODEL_MAPPING

from attncli.errors import InputError


def find_body_class(config: PreTrainedConfig) -> type[PreTrainedModel]:
    """The class that AutoModel takes, or the most body-like class made for this config."""
    for found in iter_body_classes(config):
        return found
    raise make_no_class_error(config)


def make_no_class_error(config: PreTrainedConfig) -> InputError:
    return InputError(
        f"model type '{config.model_type}' has no model class in transformers: it is a part of other types."
    )


def iter_body_classes(config: PreTrainedConfig) -> Iterator[type[PreTrainedModel]]:
    """All classes made for this config, in order of preference; modelling files are searched only beyond the first."""
    chosen: Any = None
    with suppress(KeyError, ValueError):  # in no mapping, or mapped to a class that does not exist
        chosen = MODEL_MAPPING[type(config)]
        chosen = chosen[0] if isinstance(chosen, tuple) else chosen
    if chosen is not None:
        yield chosen
    others = sorted(find_model_classes(type(config)), key=make_body_first_sort_key)
    yield from (other for other in others if other is not chosen)


def find_model_classes(kind: type[PreTrainedConfig]) -> list[type[PreTrainedModel]]:
    """Model classes of the config's own modelling files that declare this very config."""
    return [
        found
        for module in iter_modelling_modules(kind)
        for found in vars(module).values()
        if inspect.isclass(found)
        and issubclass(found, PreTrainedModel)
        and found.__module__ == module.__name__
        and getattr(found, "config_class", None) is kind
        and "forward" in vars(found)
    ]


def iter_modelling_modules(kind: type[PreTrainedConfig]) -> Iterator[ModuleType]:
    """The modelling file next to the config's own, and any other in its folder."""
    folder, _, own = kind.__module__.rpartition(".configuration_")
    try:
        names = [
            found.name for found in pkgutil.iter_modules(importlib.import_module(folder).__path__)
        ]
    except (ImportError, ValueError):
        return
    files = [name for name in names if name.startswith("modeling_")]
    for name in sorted(files, key=lambda name: name != f"modeling_{own}"):
        yield importlib.import_module(f"{folder}.{name}")


def make_body_first_sort_key(model_class: type[PreTrainedModel]) -> tuple[bool, bool, int]:
    """Sort key that puts bodies before heads: `XModel` before `XEncoder` before `XForCausalLM`."""
    name = model_class.__name__
    return ("For" in name, not name.endswith("Model"), len(name))


def iter_nested_configs(config: PreTrainedConfig) -> Iterator[PreTrainedConfig]:
    """The config and all nested in it."""
    yield config
    for value in vars(config).values():
        if isinstance(value, PreTrainedConfig):
            yield from iter_nested_configs(value)


ANYTHING = (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)


def find_forward_signature(module: nn.Module) -> inspect.Signature:
    """The signature of a model's forward; of the next one that names arguments, if it passes on `*args, **kwargs`."""
    own = inspect.signature(module.forward)
    if select_named_parameters(own):
        return own
    return next(
        filter(
            select_named_parameters,
            map(drop_self_from_signature, list_inherited_forwards(type(module))),
        ),
        own,
    )


def select_named_parameters(signature: inspect.Signature) -> Mapping[str, inspect.Parameter]:
    """Parameters with names."""
    return {name: each for name, each in signature.parameters.items() if each.kind not in ANYTHING}


def list_inherited_forwards(kind: type) -> list[Callable[..., object]]:
    """The forwards of a class and its bases; torch's Module defines none."""
    return [
        each.__dict__["forward"]
        for each in kind.__mro__
        if "forward" in each.__dict__ and each is not nn.Module
    ]


def drop_self_from_signature(function: Callable[..., object]) -> inspect.Signature:
    """A signature without `self`."""
    signature = inspect.signature(function)
    return signature.replace(parameters=list(signature.parameters.values())[1:])
