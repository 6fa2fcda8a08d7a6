"""Open weights: a saved model's, from its files without torch, or those of a model in memory."""

import json
from pathlib import Path
from typing import Any, NamedTuple

from attncli.head_weights.head_configs import HeadConfig
from attncli.head_weights.head_files import open_checkpoint_tensors, require_tensors_match_config
from attncli.model_and_file_sources import Source, parse_source
from attncli.models.files.config_checks import refuse_quantised_weights
from attncli.models.files.model_folder import FetchSettings, find_model_folder
from attncli.models.files.tensor_reader import TensorReader
from attncli.models.files.weight_files import describe_unread_shards
from attncli.records import Facts


class OpenedWeights(NamedTuple):
    """Where single heads are read from."""

    config: HeadConfig
    tensors: TensorReader
    identity: Facts
    """For the report."""
    warnings: tuple[str, ...] = ()


def open_weights(source: Source | str | Path, how: FetchSettings, seed: int) -> OpenedWeights:
    """Open weights; a Path is a folder, text is SOURCE."""
    named = parse_source(str(source.absolute())) if isinstance(source, Path) else source
    named = parse_source(named) if isinstance(named, str) else named
    if named.kind == "live":
        return open_in_memory_weights(
            named.live.model, str(named.live), named.live.describe_in_memory_model()
        )
    if named.kind == "random":
        from attncli.models.loading.load_model import load_model
        from attncli.models.loading.load_options import LoadOptions

        made = load_model(named, LoadOptions(seed=seed))
        return open_in_memory_weights(made.model, str(named), made.identity, made.warnings)
    local = find_model_folder(named, how)
    config = HeadConfig.read_config(local.folder)
    warnings = (*local.source.warnings, *filter(None, [describe_unread_shards(local.folder)]))
    return OpenedWeights(
        config,
        open_checkpoint_tensors(local.folder, config, how.allow_pickle),
        local.describe_model_source(),
        warnings,
    )


def open_in_memory_weights(
    model: Any, name: str, identity: Facts, warnings: tuple[str, ...] = ()
) -> OpenedWeights:
    """Open a model in memory, by its config and the tensor names that its checkpoint would have."""
    from attncli.head_weights.in_memory_tensors import InMemoryTensors
    from attncli.models.loading.in_memory.in_memory_model import rename_state_dict_to_saved_names

    config = build_in_memory_config(model, name)
    refuse_quantised_weights(Path(name), config.settings)
    tensors = require_tensors_match_config(
        InMemoryTensors(name, rename_state_dict_to_saved_names(model)), config
    )
    return OpenedWeights(config, tensors, identity, warnings)


def build_in_memory_config(model: Any, name: str) -> HeadConfig:
    """Build the config as it would be read from a checkpoint."""
    return HeadConfig.from_config_settings(Path(name), json.loads(model.config.to_json_string()))
