"""Check a model folder before anything is loaded: is there a config, does it name a model, can it be read?"""

import re
from collections.abc import Iterator
from pathlib import Path

from attncli.errors import AttnError, InputError
from attncli.io.json_files import read_json
from attncli.models.files.weight_files import refuse_gguf
from attncli.records import Facts, JsonObject

MOST = (
    (re.compile(r".*(layer|block|depth|expert|head|group|stage)s?|.*_per_.*"), 10_000),
    (re.compile(r".*labels?"), 1_000_000),
)
"""Upper limits of config numbers, by name: each is created in a loop, so a corrupt one would never end."""


ADAPTER = ("adapter_config.json", "adapter_model.safetensors", "adapter_model.bin")
"""What PEFT saves, alone or next to the base model."""


def read_config_json(folder: Path) -> JsonObject:
    """Read config.json; if it is missing, the error says what the folder contains instead."""
    path = folder / "config.json"
    if not path.is_file():
        refuse_adapter(folder)
        refuse_gguf(folder)
        raise InputError(f"{folder} has no config.json: give the folder of a saved model.")
    return read_json(path)


def refuse_adapter(folder: Path) -> None:
    """Refuse an adapter: the weights it changes are not those of the trained model."""
    found = next((name for name in ADAPTER if (folder / name).is_file()), None)
    if found is not None:
        raise InputError(
            f"{folder} holds an adapter ({found}), which is not read: merge it into its base (PEFT's merge_and_unload), save "
            "the model and give that folder."
        )


def refuse_adapted_or_quantised_weights(folder: Path, config: Facts) -> None:
    """Refuse tensors that are not yet the model's weights: an adapter to be merged, or packed numbers."""
    refuse_adapter(folder)
    refuse_quantised_weights(folder / "config.json", config)


def read_model_config(folder: Path) -> JsonObject:
    """Read config.json, and refuse one that names no model."""
    path = folder / "config.json"
    config = read_config_json(folder)
    kind = config.get("model_type")
    if not isinstance(kind, str) or not kind:
        raise InputError(
            f'{path} names no model_type: add it by hand, as in "model_type": "bert", if you know it.'
        )
    refuse_adapted_or_quantised_weights(folder, config)
    refuse_oversized_config_values(str(path), config)
    refuse_invalid_dropout(path, config)
    return config


def refuse_quantised_weights(path: Path, config: Facts) -> None:
    """Refuse quantised weights: packed integers that only other libraries can interpret."""
    found = config.get("quantization_config")
    if found:
        method = found.get("quant_method") if isinstance(found, dict) else found
        raise InputError(
            f"{path} says that the weights are quantised ({method}), which is not read: give the unquantised checkpoint."
        )


def refuse_oversized_config_values(
    where: str, config: Facts, error: type[AttnError] = InputError
) -> None:
    for name, value in iter_config_numbers(config):
        for names, most in MOST:
            if names.fullmatch(name.rpartition(".")[2]) and value > most:
                raise error(f"{where} asks for {name} = {value}: no model has more than {most}.")


def refuse_invalid_dropout(path: Path, config: Facts) -> None:
    """Refuse invalid dropout: it is never applied here, but torch checks its numbers in every pass."""
    for name, value in iter_config_numbers(config):
        if "drop" in name and not 0 <= value <= 1:
            raise InputError(f"{path} has no usable {name}: {value} is no probability.")


def iter_config_numbers(config: Facts) -> Iterator[tuple[str, float]]:
    """Iterate over every number of a config by its own name, nested configs included."""
    for name, value in config.items():
        for each in value if isinstance(value, list) else [value]:
            if isinstance(each, dict):
                yield from iter_config_numbers(each)
            elif isinstance(each, int | float):
                yield name, each
