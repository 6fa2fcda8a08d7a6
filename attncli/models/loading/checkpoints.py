"""Load a checkpoint strictly: every weight that a state runs through comes from the files, or there is an error."""

from pathlib import Path

import torch
from transformers import PreTrainedModel

from attncli.distributed_ranks import read_launch_environment
from attncli.models.files.config_checks import read_model_config
from attncli.models.files.load_weights import LoadedWeights, read_weights
from attncli.models.files.weight_files import describe_unread_shards
from attncli.models.loading.device_placement import (
    build_placement_arguments,
    refuse_model_on_meta_device,
)
from attncli.models.loading.fill_model_from_tensors import (
    assign_tensors_to_model,
    find_loadable_tensor_names,
    refuse_integer_weights,
    refuse_model_larger_than_files,
    refuse_names_differing_by_prefix,
)
from attncli.models.loading.in_memory.eval_mode import set_eval_mode
from attncli.models.loading.load_options import LoadOptions
from attncli.models.loading.loaded_model import Ahead, LoadedModel
from attncli.models.loading.loading_issues import (
    LoadingResult,
    classify_loading_issues,
    find_weights_computed_by_code,
    find_wrapper_prefix_of_names,
    refuse_weight_shape_mismatches,
    report_loading_issues,
)
from attncli.models.loading.memory_estimate import require_memory_for_weights
from attncli.models.loading.model_class_of_config import Architecture, find_architecture
from attncli.models.precision import (
    choose_dtype,
    describe_dtype_change,
    find_common_dtype_of_weights,
    format_dtype,
)


def load_checkpoint_folder(
    folder: Path, options: LoadOptions, device: torch.device, ahead: Ahead | None = None
) -> LoadedModel:
    """Load a folder: config, class, files, memory, weights, issues; each step refuses what the next could not handle."""
    architecture = find_architecture(folder, read_model_config(folder), options.trust_remote_code)
    blank = architecture.build_on_meta_device(folder)
    weights = read_weights(folder, options.allow_pickle)
    stored = find_common_dtype_of_weights(weights.dtypes.values())
    dtype = choose_dtype(options.dtype, stored, device)
    if options.dtype is None and not options.half:
        dtype = torch.promote_types(dtype, torch.float32)
    refuse_names_differing_by_prefix(folder, weights, blank)
    if not options.allow_missing:
        refuse_model_larger_than_files(folder, blank, weights)
    require_memory_for_weights(
        folder,
        blank,
        dtype,
        in_place=options.device_map is not None or (dtype == stored and device.type == "cpu"),
        parts=read_launch_environment().size if options.tensor_parallel else 1,
    )
    read_ahead = None if ahead is None else ahead(LoadedModel(blank, {}, folder))
    weight_sha256 = weights.sha256()
    loaded, warnings = fill_model_with_weights(folder, architecture, blank, weights, dtype, options)
    placed = options.device_map or options.tensor_parallel
    model = set_eval_mode(loaded.model, None if placed else device)
    refuse_model_on_meta_device(model)
    identity = {
        "model_type": model.config.model_type,
        "class": type(model).__name__,
        "parameters": model.num_parameters(),
        "dtype": format_dtype(dtype),
        "dtype_of_file": format_dtype(stored),
        "device": options.device_map or str(model.device if placed else device),
        "format": weights.format,
        "weight_sha256": weight_sha256,
    }
    if options.tensor_parallel:
        identity["split_over"] = read_launch_environment().size
    if architecture.remote:
        identity["remote_code"] = True
    shards = filter(None, [describe_unread_shards(folder)])
    notes = (*describe_dtype_change(options.dtype, stored, dtype), *shards, *warnings)
    notes = (*architecture.warnings, *notes)
    return LoadedModel(model, identity, folder, notes, read_ahead=read_ahead)


def fill_model_with_weights(
    folder: Path,
    architecture: Architecture,
    blank: PreTrainedModel,
    weights: LoadedWeights,
    dtype: torch.dtype,
    options: LoadOptions,
) -> tuple[LoadingResult, list[str]]:
    """Fill the model with its weights and check the result."""
    placing = build_placement_arguments(blank, options.device_map, options.tensor_parallel)
    with weights.open_state() as state:
        usable = {name: state[name] for name in find_loadable_tensor_names(weights, blank)}

        def assign_tensors_with_seed(seed: int) -> LoadingResult:
            return assign_tensors_to_model(folder, architecture, usable, dtype, placing, seed)

        loaded = assign_tensors_with_seed(options.seed)
        refuse_weight_shape_mismatches(folder, loaded)
        refuse_integer_weights(folder, weights, set(usable), loaded)
        computed = find_weights_computed_by_code(
            loaded.find_weights_not_from_files(),
            blank,
            loaded,
            lambda: assign_tensors_with_seed(options.seed + 1),
        )
    issues = classify_loading_issues(loaded, computed)
    prefix = find_wrapper_prefix_of_names(weights.dtypes, blank) if issues.missing else None
    return loaded, report_loading_issues(folder, issues, prefix, options.allow_missing)
