"""A checkpoint, loaded strictly: every weight that a state runs through comes from the files, or there is an error."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import torch
from transformers import PreTrainedModel

from attncli.errors import UsageError
from attncli.models.casting import in_dtype
from attncli.models.files.folders import read_config
from attncli.models.files.local_folder import Fetching, local_folder, revision_of
from attncli.models.files.weight_files import unread_shards
from attncli.models.files.whole_weights import Weights, read_weights, state_sha256
from attncli.models.loading.architectures import Architecture, architecture_of
from attncli.models.loading.body import body_of
from attncli.models.loading.in_memory.eval_mode import at_rest
from attncli.models.loading.in_memory.in_memory_model import LiveModel
from attncli.models.loading.isolate_global_state import alone
from attncli.models.loading.load_options import LoadOptions
from attncli.models.loading.memory_estimate import require_room_for_weights
from attncli.models.loading.placing import placement, refuse_no_device
from attncli.models.loading.precision import (
    checked_device,
    checked_device_map,
    dtype_name,
    require_accelerate,
    said_of_dtype,
    stored_dtype,
    wanted_dtype,
)
from attncli.models.loading.state_dict import (
    fill,
    refuse_other_numbers,
    refuse_oversize,
    refuse_two_for_one,
    usable_names,
)
from attncli.models.loading.strictness import (
    Loaded,
    computed_weights,
    foreign_prefix,
    judge,
    refuse_mismatches,
    report,
)
from attncli.models.quiet_libraries import quiet
from attncli.ranks import launch
from attncli.sources import Source, parse


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A model that is ready to run, and what a report says about it."""

    model: PreTrainedModel
    """In evaluation mode, without gradients and cache."""
    identity: Mapping[str, Any]
    folder: Path | None
    """Where tokenizer files lie; a random model has none."""
    warnings: tuple[str, ...] = ()
    tokenizer: Any = None
    """A live module's, which came beside it."""
    given: Any = None
    """What a live module is to read, where its caller has said so."""
    read_ahead: Any = None
    """What was read of the texts before the weights were."""

    @property
    def reads_texts(self) -> bool:
        """Whether it came with a tokenizer, or with a folder that should hold one."""
        return self.folder is not None or self.tokenizer is not None

    @property
    def body(self) -> PreTrainedModel:
        """The model without its head: what is run, so that no logits over the vocabulary are made."""
        return body_of(self.model)


Ahead = Callable[[Checkpoint], Any]
"""Of a model without memory: what can be refused before its weights are read, and what is kept of that."""


def load(
    source: Source | str, options: LoadOptions | None = None, ahead: Ahead | None = None
) -> Checkpoint:
    """The model that SOURCE names."""
    alone()
    options = options or LoadOptions()
    source = parse(source) if isinstance(source, str) else source
    revision_of(source, options.revision)
    device = checked_device(options.device)
    checked_device_map(options.device_map, options.device)
    if options.tensor_parallel:
        require_accelerate("tensor_parallel")
    if source.kind == "live":
        return live_checkpoint(source.live, options, device)
    if source.kind == "random":
        return random_checkpoint(source, options, device)
    with quiet():
        how = Fetching(
            options.revision, options.offline, options.allow_pickle, options.trust_remote_code
        )
        local = local_folder(source, how)
        found = folder_checkpoint(local.folder, options, device, ahead)
    return replace(
        found,
        identity={**local.described(), **found.identity},
        warnings=source.warnings + found.warnings,
    )


def folder_checkpoint(
    folder: Path, options: LoadOptions, device: torch.device, ahead: Ahead | None = None
) -> Checkpoint:
    """Config, class, files, room, weights, judgement: each step refuses what the next could not bear."""
    architecture = architecture_of(folder, read_config(folder), options.trust_remote_code)
    blank = architecture.without_memory(folder)
    weights = read_weights(folder, options.allow_pickle)
    stored = stored_dtype(weights.dtypes.values())
    dtype = wanted_dtype(options.dtype, stored, device)
    if options.dtype is None and not options.half:
        dtype = torch.promote_types(dtype, torch.float32)
    refuse_two_for_one(folder, weights, blank)
    if not options.allow_missing:
        refuse_oversize(folder, blank, weights)
    require_room_for_weights(
        folder,
        blank,
        dtype,
        in_place=options.device_map is not None or (dtype == stored and device.type == "cpu"),
        parts=launch().size if options.tensor_parallel else 1,
    )
    read_ahead = None if ahead is None else ahead(Checkpoint(blank, {}, folder))
    weight_sha256 = weights.sha256()
    loaded, warnings = filled(folder, architecture, blank, weights, dtype, options)
    placed = options.device_map or options.tensor_parallel
    model = at_rest(loaded.model, None if placed else device)
    refuse_no_device(model)
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
        identity["split_over"] = launch().size
    if architecture.remote:
        identity["remote_code"] = True
    shards = filter(None, [unread_shards(folder)])
    said = (*said_of_dtype(options.dtype, stored, dtype), *shards, *warnings)
    said = (*architecture.warnings, *said)
    return Checkpoint(model, identity, folder, said, read_ahead=read_ahead)


def filled(
    folder: Path,
    architecture: Architecture,
    blank: PreTrainedModel,
    weights: Weights,
    dtype: torch.dtype,
    options: LoadOptions,
) -> tuple[Loaded, list[str]]:
    """The model with its weights, judged."""
    placing = placement(blank, options.device_map, options.tensor_parallel)
    with weights.opened() as state:
        usable = {name: state[name] for name in usable_names(weights, blank)}

        def once(seed: int) -> Loaded:
            return fill(folder, architecture, usable, dtype, placing, seed)

        loaded = once(options.seed)
        refuse_mismatches(folder, loaded)
        refuse_other_numbers(folder, weights, set(usable), loaded)
        computed = computed_weights(loaded.random(), blank, loaded, lambda: once(options.seed + 1))
    judged = judge(loaded, computed)
    prefix = foreign_prefix(weights.dtypes, blank) if judged.missing else None
    return loaded, report(folder, judged, prefix, options.allow_missing)


def live_checkpoint(live: LiveModel, options: LoadOptions, device: torch.device) -> Checkpoint:
    """The caller's own module, where it is; only within `left_as_it_was`, which undoes what is done to it here."""
    if device.type != "cpu" or options.device_map is not None or options.tensor_parallel:
        raise UsageError("a live module is measured where it is: move it, or leave `device` out.")
    model, identity = cast(PreTrainedModel, live.model), live.identity()
    dtype = wanted_dtype(options.dtype, model.dtype, model.device)
    if options.dtype is None and not options.half:
        dtype = torch.promote_types(dtype, torch.float32)
    in_dtype(model, dtype)
    at_rest(model, None)
    return Checkpoint(
        model,
        {**identity, "dtype": dtype_name(dtype)},
        None,
        tokenizer=live.tokenizer,
        given=live.inputs,
    )


def random_checkpoint(source: Source, options: LoadOptions, device: torch.device) -> Checkpoint:
    """Seeded random weights; nothing is read."""
    from attncli.models.random.random_models import random_model

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
    dtype = wanted_dtype(options.dtype, torch.float32, device)
    with quiet():
        built = random_model(source.name, source.sizes, options.seed, dtype)
        model = at_rest(built.model, device)
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
        "weight_sha256": state_sha256(f"random:{source.name}", model.state_dict()),
    }
    return Checkpoint(model, identity, None, (built.note,) if built.note else ())
