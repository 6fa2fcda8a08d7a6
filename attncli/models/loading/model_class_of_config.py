"""Find the class of a config, and build the model without memory, to compare the files with it."""

from dataclasses import dataclass
from pathlib import Path

import torch
import transformers
from transformers import CONFIG_MAPPING, AutoConfig, PreTrainedConfig, PreTrainedModel
from transformers.dynamic_module_utils import get_class_from_dynamic_module

from attncli.errors import InputError, make_unknown_name_error
from attncli.models.library_errors import translate_library_errors
from attncli.models.model_classes import find_body_class, find_model_classes, iter_nested_configs
from attncli.records import Facts

REMOTE_ORDER = (
    "AutoModelForCausalLM",
    "AutoModelForMaskedLM",
    "AutoModelForSeq2SeqLM",
    "AutoModel",
)
"""The order in which a repository's own classes are chosen, if it has several."""

HERE = ("eager", "sdpa")
"""Attention implementations that torch computes by itself."""


@dataclass(frozen=True, slots=True)
class Architecture:
    """A config and its class, to be filled with weights."""

    config: PreTrainedConfig
    model_class: type[PreTrainedModel]
    remote: bool
    """Whether its code came with the checkpoint."""
    warnings: tuple[str, ...] = ()

    def build_on_meta_device(self, folder: Path) -> PreTrainedModel:
        """Build the model on torch's meta device: names, shapes and dtypes of all weights, no numbers."""

        def instantiate_on_meta_device() -> PreTrainedModel:
            with torch.device("meta"):
                return self.model_class(self.config)

        return translate_library_errors(
            folder, "its config describes no model that can be built", instantiate_on_meta_device
        )


def find_architecture(folder: Path, settings: Facts, trust_remote_code: bool) -> Architecture:
    """Find the config's own class; code that came with the checkpoint runs only if it is trusted."""
    remote = trust_remote_code and isinstance(settings.get("auto_map"), dict)
    if not remote:
        refuse_unknown_model_type(folder, settings)
    config = translate_library_errors(
        folder,
        "config.json is not understood",
        lambda: AutoConfig.from_pretrained(
            folder, trust_remote_code=trust_remote_code, local_files_only=True
        ),
    )
    drop_saved_attention_implementation(config)
    if remote:
        found = translate_library_errors(
            folder,
            "its own code does not load",
            lambda: load_remote_model_class(folder, settings["auto_map"]),
        )
        return Architecture(config, found, remote=True)
    model_class, warnings = find_model_class(folder, config)
    return Architecture(config, model_class, remote=False, warnings=warnings)


def drop_saved_attention_implementation(config: PreTrainedConfig) -> None:
    """Forget the saved attention implementation: it changes no weights, and its package may be missing here."""
    for each in iter_nested_configs(config):
        if each._attn_implementation_internal not in (None, *HERE):
            each._attn_implementation_internal = None


def refuse_unknown_model_type(folder: Path, config: Facts) -> None:
    kind = config["model_type"]
    if kind in CONFIG_MAPPING:
        return
    if config.get("auto_map"):
        raise InputError(
            f"{folder}: model type '{kind}' runs code that comes with the checkpoint (auto_map), which is not run "
            "unasked: read it, then give `trust_remote_code=True`."
        )
    raise InputError(
        f"{folder}/config.json for transformers {transformers.__version__}: {make_unknown_name_error('model type', kind, CONFIG_MAPPING)}"
    )


def load_remote_model_class(folder: Path, auto_map: Facts) -> type[PreTrainedModel]:
    names = [*REMOTE_ORDER, *(name for name in auto_map if name.startswith("AutoModel"))]
    for name in names:
        if isinstance(auto_map.get(name), str):
            found: type[PreTrainedModel] = get_class_from_dynamic_module(auto_map[name], folder)
            return found
    raise InputError(f"{folder}: its auto_map names no model class.")


def find_model_class(
    folder: Path, config: PreTrainedConfig
) -> tuple[type[PreTrainedModel], tuple[str, ...]]:
    """The class that `architectures` names, if transformers has it for this config; else the body without a head."""
    listed = config.architectures
    names = [name for name in listed if isinstance(name, str)] if isinstance(listed, list) else []
    own = {found.__name__: found for found in find_model_classes(type(config))}
    for name in names:
        found = getattr(transformers, name, None) or own.get(name)
        if isinstance(found, type) and is_model_class_of_config(found, config):
            return found, ()
    body = find_body_class(config)
    if body.__name__ in names:  # a model type that shares another type's class
        return body, ()
    instead = (
        f"names {', '.join(names)}, no class for type '{config.model_type}'"
        if names
        else "names no class"
    )
    return body, (f"{folder}: config.json {instead}: loaded as {body.__name__}.",)


def is_model_class_of_config(model_class: type, config: PreTrainedConfig) -> bool:
    config_class = getattr(model_class, "config_class", None)
    return (
        issubclass(model_class, PreTrainedModel)
        and config_class is not None
        and isinstance(config, config_class)
    )
