"""The files of a folder whose heads are read without a model: config and tensors, refused where a loaded model would be."""

import re
from pathlib import Path

from attncli.errors import InputError
from attncli.head_weights.configs import Config
from attncli.head_weights.families import Family
from attncli.head_weights.in_memory_tensors import unpickled_tensors
from attncli.models.files.folders import refuse_changed_weights
from attncli.models.files.tensor_reader import Tensors
from attncli.models.files.weight_files import pickles_to_read

OWN = ("weight", "bias")
"""What a projection has."""


def tensors_for(folder: Path, config: Config, allow_pickle: bool = False) -> Tensors:
    """The folder's tensors, once they are seen to be those of the config, whole and as they are used."""
    refuse_changed_weights(folder, config.said)
    if pickles_to_read(folder, allow_pickle):
        return of_config(unpickled_tensors(folder), config)
    return of_config(Tensors(folder), config)


def of_config(tensors: Tensors, config: Config) -> Tensors:
    """The same, refused where they are those of another model or more than its own."""
    folder = tensors.folder
    places = config.place(config.layers - 1) + 1
    for name in sorted(tensors.places):
        found = projection_in(config.family, name)
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


def projection_in(family: Family, name: str) -> re.Match[str] | None:
    """Layer and part, where the tensor belongs to a projection of a head."""
    templates = (family.query, family.key, family.value, family.output)
    found = (re.fullmatch(pattern_of(each), name) for each in templates if each)
    return next((each for each in found if each is not None), None)


def pattern_of(template: str) -> str:
    """A template of names, and what stands under it; whatever the prefix."""
    before, after = map(re.escape, template.split("{l}"))
    return rf"(?:.*\.)?{before}(?P<layer>\d{{1,9}}){after}\.(?P<part>.+)"
