"""Whose weights are looked at: a saved model's, from its files without torch, or those of a model in memory."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from attncli.errors import UsageError
from attncli.head_weights.configs import Config
from attncli.head_weights.head_files import of_config, tensors_for
from attncli.models.files.folders import refuse_quantised
from attncli.models.files.local_folder import Fetching, local_folder
from attncli.models.files.tensor_reader import Tensors
from attncli.models.files.weight_files import unread_shards
from attncli.sources import Source, parse


class OpenedWeights(NamedTuple):
    """Where single heads are read from."""

    config: Config
    tensors: Tensors
    identity: Mapping[str, Any]
    """For the report."""
    warnings: tuple[str, ...] = ()


def opened_weights(source: Source | str | Path, how: Fetching, seed: int) -> OpenedWeights:
    """A path is a folder, whatever it looks like; text is SOURCE."""
    named = parse(str(source.absolute())) if isinstance(source, Path) else source
    named = parse(named) if isinstance(named, str) else named
    if named.kind == "live":
        refuse_to_run(named.live.model, str(named.live), named.live.inputs)
        return in_memory(named.live.model, str(named.live), named.live.identity())
    if named.kind == "random":
        from attncli.models.loading.load import load
        from attncli.models.loading.load_options import LoadOptions

        made = load(named, LoadOptions(seed=seed))
        return in_memory(made.model, str(named), made.identity, made.warnings)
    local = local_folder(named, how)
    config = Config.read(local.folder)
    warnings = (*local.source.warnings, *filter(None, [unread_shards(local.folder)]))
    return OpenedWeights(
        config, tensors_for(local.folder, config, how.allow_pickle), local.described(), warnings
    )


def in_memory(
    model: Any, name: str, identity: Mapping[str, Any], warnings: tuple[str, ...] = ()
) -> OpenedWeights:
    """By the config and the names of tensors that a checkpoint of it would have."""
    from attncli.head_weights.in_memory_tensors import HeldTensors
    from attncli.models.loading.in_memory.in_memory_model import named_as_saved

    config = config_in_memory(model, name)
    refuse_quantised(Path(name), config.said)
    tensors = of_config(HeldTensors(name, named_as_saved(model)), config)
    return OpenedWeights(config, tensors, identity, warnings)


def refuse_to_run(model: Any, name: str, inputs: Any) -> None:
    """What has no type of transformers is known by running it alone; inputs are for a run."""
    from attncli.capture.stacks.foreign_modules import HeldModule

    if isinstance(model, HeldModule):
        raise UsageError(
            f"heads are found by the names that a type of transformers has for their weights, and {name} is none of those."
        )
    if inputs is not None:
        raise UsageError(
            "nothing is run here, so `inputs` says nothing: leave it out.", about=["inputs"]
        )


def config_in_memory(model: Any, name: str) -> Config:
    """As it would be read from a checkpoint."""
    return Config.of(Path(name), json.loads(model.config.to_json_string()))
