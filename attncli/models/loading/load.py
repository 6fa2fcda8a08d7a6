"""Load a checkpoint strictly: every weight that a state runs through comes from the files, or there is an error."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import torch
from transformers import PreTrainedModel

from attncli.distributed_ranks import read_launch_environment
from attncli.errors import UsageError
from attncli.models.casting import cast_model
from attncli.models.files.folders import read_config
from attncli.models.files.load_weights import LoadedWeights, hash_state_dict, read_weights
from attncli.models.files.local_folder import FetchSettings, choose_revision, find_local_folder
from attncli.models.files.weight_files import describe_unread_shards
from attncli.models.loading.architectures import Architecture, find_architecture
from attncli.models.loading.body import remove_model_head
from attncli.models.loading.device_placement import build_placement_arguments, refuse_meta_model
from attncli.models.loading.in_memory.eval_mode import set_eval_mode
from attncli.models.loading.in_memory.in_memory_model import InMemoryModel
from attncli.models.loading.isolate_global_state import isolate_in_process
from attncli.models.loading.load_options import LoadOptions
from attncli.models.loading.loading_issues import (
    LoadingResult,
    classify_issues,
    find_weights_computed_by_code,
    find_wrapper_prefix,
    refuse_shape_mismatches,
    report_issues,
)
from attncli.models.loading.memory_estimate import require_memory_for_weights
from attncli.models.loading.precision import (
    choose_dtype,
    choose_stored_dtype,
    describe_dtype_change,
    dtype_name,
    parse_device,
    parse_device_map,
    require_accelerate,
)
from attncli.models.loading.state_dict import (
    assign_tensors,
    find_loadable_names,
    refuse_integer_weights,
    refuse_model_larger_than_files,
    refuse_prefix_duplicates,
)
from attncli.models.quiet_libraries import silence_libraries
from attncli.sources import Source, parse_source


@dataclass(frozen=True, slots=True)
class LoadedModel:
    """A model that is ready to run, with its description for the report."""

    model: PreTrainedModel
    """In evaluation mode, without gradients and cache."""
    identity: Mapping[str, Any]
    folder: Path | None
    """The folder of tokenizer files; None for a random model."""
    warnings: tuple[str, ...] = ()
    tokenizer: Any = None
    """The tokenizer of an in-memory model."""
    given: Any = None
    """The inputs given with an in-memory model."""
    read_ahead: Any = None
    """Texts that were read and checked before the weights."""

    @property
    def reads_texts(self) -> bool:
        """Whether it has a tokenizer, or a folder that should hold one."""
        return self.folder is not None or self.tokenizer is not None

    @property
    def body(self) -> PreTrainedModel:
        """The model without its head: what is run, so that no logits over the vocabulary are made."""
        return remove_model_head(self.model)


Ahead = Callable[[LoadedModel], Any]
"""A check on the model without memory: refuses what it can before weights are read, and returns what it has read."""


def load_model(
    source: Source | str, options: LoadOptions | None = None, ahead: Ahead | None = None
) -> LoadedModel:
    """Load the model that SOURCE names."""
    isolate_in_process()
    options = options or LoadOptions()
    source = parse_source(source) if isinstance(source, str) else source
    choose_revision(source, options.revision)
    device = parse_device(options.device)
    parse_device_map(options.device_map, options.device)
    if options.tensor_parallel:
        require_accelerate("tensor_parallel")
    if source.kind == "live":
        return load_in_memory_model(source.live, options, device)
    if source.kind == "random":
        return load_random_model(source, options, device)
    with silence_libraries():
        how = FetchSettings(
            options.revision, options.offline, options.allow_pickle, options.trust_remote_code
        )
        local = find_local_folder(source, how)
        found = load_folder(local.folder, options, device, ahead)
    return replace(
        found,
        identity={**local.describe(), **found.identity},
        warnings=source.warnings + found.warnings,
    )


def load_folder(
    folder: Path, options: LoadOptions, device: torch.device, ahead: Ahead | None = None
) -> LoadedModel:
    """Load a folder: config, class, files, memory, weights, issues; each step refuses what the next could not handle."""
    architecture = find_architecture(folder, read_config(folder), options.trust_remote_code)
    blank = architecture.build_on_meta_device(folder)
    weights = read_weights(folder, options.allow_pickle)
    stored = choose_stored_dtype(weights.dtypes.values())
    dtype = choose_dtype(options.dtype, stored, device)
    if options.dtype is None and not options.half:
        dtype = torch.promote_types(dtype, torch.float32)
    refuse_prefix_duplicates(folder, weights, blank)
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
    refuse_meta_model(model)
    identity = {
        "model_type": model.config.model_type,
        "class": type(model).__name__,
        "parameters": model.num_parameters(),
        "dtype": dtype_name(dtype),
        "dtype_of_file": dtype_name(stored),
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
    with weights.opened() as state:
        usable = {name: state[name] for name in find_loadable_names(weights, blank)}

        def load_with_seed(seed: int) -> LoadingResult:
            return assign_tensors(folder, architecture, usable, dtype, placing, seed)

        loaded = load_with_seed(options.seed)
        refuse_shape_mismatches(folder, loaded)
        refuse_integer_weights(folder, weights, set(usable), loaded)
        computed = find_weights_computed_by_code(
            loaded.find_random_weights(), blank, loaded, lambda: load_with_seed(options.seed + 1)
        )
    judged = classify_issues(loaded, computed)
    prefix = find_wrapper_prefix(weights.dtypes, blank) if judged.missing else None
    return loaded, report_issues(folder, judged, prefix, options.allow_missing)


def load_in_memory_model(
    live: InMemoryModel, options: LoadOptions, device: torch.device
) -> LoadedModel:
    """Take the user's module where it is; only within `restore_model`, which undoes the changes made here."""
    if device.type != "cpu" or options.device_map is not None or options.tensor_parallel:
        raise UsageError("a live module is measured where it is: move it, or leave `device` out.")
    model, identity = cast(PreTrainedModel, live.model), live.identity()
    dtype = choose_dtype(options.dtype, model.dtype, model.device)
    if options.dtype is None and not options.half:
        dtype = torch.promote_types(dtype, torch.float32)
    cast_model(model, dtype)
    set_eval_mode(model, None)
    return LoadedModel(
        model,
        {**identity, "dtype": dtype_name(dtype)},
        None,
        tokenizer=live.tokenizer,
        given=live.inputs,
    )


def load_random_model(source: Source, options: LoadOptions, device: torch.device) -> LoadedModel:
    """Draw a model with seeded random weights; nothing is read."""
    from attncli.models.random.random_models import make_random_model

    if options.device_map is not None:
        raise UsageError(
            "`device_map` spreads checkpoints: a random model is built on one `device`.",
            about=["device_map"],
        )
    if options.tensor_parallel:
        raise UsageError(
            "`tensor_parallel` splits checkpoints: a random model is built whole.",
            about=["tensor_parallel"],
        )
    dtype = choose_dtype(options.dtype, torch.float32, device)
    with silence_libraries():
        built = make_random_model(source.name, source.sizes, options.seed, dtype)
        model = set_eval_mode(built.model, device)
    identity = {
        "kind": "random",
        "name": source.name,
        "sizes": dict(source.sizes),
        "tiny": built.tiny,
        "seed": options.seed,
        "model_type": model.config.model_type,
        "class": type(model).__name__,
        "parameters": model.num_parameters(),
        "dtype": dtype_name(dtype),
        "device": str(device),
        "weight_sha256": hash_state_dict(f"random:{source.name}", model.state_dict()),
    }
    return LoadedModel(model, identity, None, (built.note,) if built.note else ())
