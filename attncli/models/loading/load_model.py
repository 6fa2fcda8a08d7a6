"""Load the model that SOURCE names: a checkpoint, one in memory, or one with random weights."""

from dataclasses import replace
from typing import TYPE_CHECKING, cast

import torch
from transformers import PreTrainedModel

from attncli.model_and_file_sources import Source, parse_source
from attncli.models.files.model_folder import choose_hub_revision, find_model_folder
from attncli.models.files.state_dict_hashing import hash_state_dict
from attncli.models.loading.in_memory.eval_mode import set_eval_mode
from attncli.models.loading.isolate_global_state import isolate_run_in_process
from attncli.models.loading.load_options import LoadOptions
from attncli.models.loading.loaded_model import Ahead, LoadedModel
from attncli.models.precision import (
    cast_model_to_dtype,
    choose_dtype,
    format_dtype,
    parse_device,
    require_accelerate,
)
from attncli.models.quiet_libraries import silence_libraries

if TYPE_CHECKING:
    from attncli.models.loading.in_memory.in_memory_model import InMemoryModel


def load_model(
    source: Source | str, options: LoadOptions | None = None, ahead: Ahead | None = None
) -> LoadedModel:
    """Load the model that SOURCE names."""
    isolate_run_in_process()
    options = options or LoadOptions()
    source = parse_source(source) if isinstance(source, str) else source
    if options.revision is not None:
        choose_hub_revision(source, options.revision)
    device = parse_device(options.device)
    for name in ("device_map", "tensor_parallel"):
        if getattr(options, name):
            require_accelerate(name)
    if source.kind == "live":
        return load_in_memory_model(source.live, options)
    if source.kind == "random":
        return load_random_model(source, options, device)
    from attncli.models.loading.checkpoints import load_checkpoint_folder

    with silence_libraries():
        local = find_model_folder(source, options)
        found = load_checkpoint_folder(local.folder, options, device, ahead)
    return replace(
        found,
        identity={**local.describe_model_source(), **found.identity},
        warnings=source.warnings + found.warnings,
    )


def load_in_memory_model(live: "InMemoryModel", options: LoadOptions) -> LoadedModel:
    """Take the user's module where it is; only within `restore_in_memory_model`, which undoes the changes made here."""
    model, identity = cast(PreTrainedModel, live.model), live.describe_in_memory_model()
    dtype = choose_dtype(options.dtype, model.dtype, model.device)
    if options.dtype is None and not options.half:
        dtype = torch.promote_types(dtype, torch.float32)
    cast_model_to_dtype(model, dtype)
    set_eval_mode(model, None)
    return LoadedModel(
        model,
        {**identity, "dtype": format_dtype(dtype)},
        None,
        tokenizer=live.tokenizer,
        user_inputs=live.inputs,
    )


def load_random_model(source: Source, options: LoadOptions, device: torch.device) -> LoadedModel:
    """Draw a model with seeded random weights; nothing is read."""
    from attncli.models.random.random_models import make_random_model

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
        "dtype": format_dtype(dtype),
        "device": str(device),
        "weight_sha256": hash_state_dict(f"random:{source.name}", model.state_dict()),
    }
    return LoadedModel(model, identity, None, (built.note,) if built.note else ())
