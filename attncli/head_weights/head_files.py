"""Config and tensors of a folder whose heads are read without a model, refused where a loaded model would be."""

import re
from pathlib import Path

from attncli.errors import InputError
from attncli.head_weights.head_configs import HeadConfig
from attncli.head_weights.in_memory_tensors import read_pickled_tensors
from attncli.head_weights.model_families import HeadFamily
from attncli.models.files.config_checks import refuse_adapted_or_quantised_weights
from attncli.models.files.tensor_reader import TensorReader
from attncli.models.files.weight_files import list_pickled_weights_if_allowed

OWN = ("weight", "bias")
"""The tensors of a projection."""


def open_checkpoint_tensors(
    folder: Path, config: HeadConfig, allow_pickle: bool = False
) -> TensorReader:
    """Open the folder's tensors, and check that they fit the config and are complete and unmodified."""
    refuse_adapted_or_quantised_weights(folder, config.settings)
    if list_pickled_weights_if_allowed(folder, allow_pickle):
        return require_tensors_match_config(read_pickled_tensors(folder), config)
    return require_tensors_match_config(TensorReader(folder), config)


def require_tensors_match_config(tensors: TensorReader, config: HeadConfig) -> TensorReader:
    """Refuse tensors of another model, or more tensors than the config has."""
    folder = tensors.folder
    places = config.layer_index_in_tensor_names(config.layer_count - 1) + 1
    for name in sorted(tensors.places):
        found = match_projection_tensor_name(config.family, name)
        if found is None:
            continue
        place, part = int(found["layer"]), found["part"]
        if part not in OWN:
            raise InputError(
                f"{folder} holds {name} beside a weight that it changes (an adapter, or packed numbers), which is not read: "
                "merge it into the weights first."
            )
        if place >= places:
            raise InputError(
                f"{folder} holds {name}, and its config describes layers 0 … {places - 1}: one of them is of another model."
            )
    return tensors


def match_projection_tensor_name(family: HeadFamily, name: str) -> re.Match[str] | None:
    """The layer and part of a tensor that belongs to a projection of a head."""
    templates = (family.query, family.key, family.value, family.output)
    found = (re.fullmatch(convert_name_template_to_regex(each), name) for each in templates if each)
    return next((each for each in found if each is not None), None)


def convert_name_template_to_regex(template: str) -> str:
    """A pattern of a template of names and the tensors below it, whatever the prefix."""
    before, after = map(re.escape, template.split("{l}"))
    return rf"(?:.*\.)?{before}(?P<layer>\d{{1,9}}){after}\.(?P<part>.+)"
