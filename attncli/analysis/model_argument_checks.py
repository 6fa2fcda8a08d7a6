"""Checks of SOURCE and the model options before anything heavy is imported."""

from attncli.declare.dry_run import STAGE
from attncli.model_and_file_sources import Source
from attncli.models.files.local_folder import FetchSettings, find_local_folder
from attncli.options.model_and_input import CheckpointOptions, TextOptions


def check_options_before_loading(
    source: Source, model: CheckpointOptions, inputs: TextOptions, tokens: int | None, seed: int
) -> None:
    """Validate options and the model's folder before anything heavy is imported."""
    model.build_load_options(seed)
    inputs.build_requested_input(tokens, seed)
    if source.kind == "folder":
        from attncli.models.files.config_checks import read_config
        from attncli.models.files.weight_files import refuse_unreadable_weights

        folder = find_local_folder(source).folder
        read_config(folder)
        refuse_unreadable_weights(folder, model.allow_pickle)
    if source.kind == "hub" and not STAGE.rehearsing:
        find_local_folder(source, FetchSettings(model.revision, model.offline), config_alone=True)
