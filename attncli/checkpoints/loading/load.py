"""A checkpoint, loaded strictly: every weight that a state runs through comes from the files, or there is an error."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import torch
from torch import nn
from transformers import PreTrainedModel

from attncli.checkpoints.files.folders import read_config
from attncli.checkpoints.files.hashing import FLOATS
from attncli.checkpoints.files.hub import fetched
from attncli.checkpoints.files.weights import State, Weights, read_weights, state_sha256
from attncli.checkpoints.loading.architectures import Architecture, architecture_of, understood
from attncli.checkpoints.loading.precision import (
    checked_device,
    checked_device_map,
    dtype_name,
    stored_dtype,
    wanted_dtype,
)
from attncli.checkpoints.loading.quiet import quiet
from attncli.checkpoints.loading.room_needed import require_room_for_weights
from attncli.checkpoints.loading.strictness import (
    Loaded,
    computed_weights,
    foreign_prefix,
    judge,
    refuse_mismatches,
    report,
)
from attncli.checkpoints.sources import Source, parse
from attncli.errors import InputError, UsageError

OVERSIZE = 4
"""A model with this many times the numbers of its files is of another config; tied weights make it 2 at most."""
KEPT = ("use_cache", "output_attentions", "output_hidden_states")
"""What configs may ask a forward pass to keep for its caller."""
SLACK = 1_000_000
"""Numbers that small checkpoints may lack of what their config describes before the sizes alone are held against it."""


@dataclass(frozen=True, slots=True)
class LoadOptions:
    """How a model is loaded; the defaults trust nothing."""

    dtype: str | None = None
    """None: the file's own."""
    device: str = "cpu"
    device_map: str | None = None
    revision: str | None = None
    offline: bool = False
    allow_missing: bool = False
    allow_pickle: bool = False
    trust_remote_code: bool = False
    seed: int = 0
    """Of random models, and of weights that `allow_missing` leaves random."""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A model that is ready to run, and what a report says about it."""

    model: PreTrainedModel
    """In evaluation mode, without gradients and cache."""
    identity: Mapping[str, Any]
    folder: Path | None
    """Where tokenizer files lie; a random model has none."""
    warnings: tuple[str, ...] = ()

    @property
    def body(self) -> PreTrainedModel:
        """The model without its head: what is run, so that no logits over the vocabulary are made."""
        return cast(PreTrainedModel, self.model.base_model)


def load(source: Source | str, options: LoadOptions | None = None) -> Checkpoint:
    """The model that SOURCE names."""
    options = options or LoadOptions()
    source = parse(source) if isinstance(source, str) else source
    revision = revision_of(source, options)
    device = checked_device(options.device)
    checked_device_map(options.device_map, options.device)
    if source.kind == "random":
        return random_checkpoint(source, options, device)
    if source.kind == "file":
        raise UsageError(f"{source.name} is one file: a model is a folder with its config.json.")
    with quiet():
        if source.kind == "hub":
            folder = fetched(
                source, revision, options.offline, options.allow_pickle, options.trust_remote_code
            )
            described = {
                "kind": "hub",
                "name": source.name,
                "revision": revision,
                "commit": folder.name,
            }
        else:
            folder = source.path
            described = {"kind": "folder", "path": source.name}
        found = folder_checkpoint(folder, options, device)
    return replace(
        found, identity={**described, **found.identity}, warnings=source.warnings + found.warnings
    )


def revision_of(source: Source, options: LoadOptions) -> str | None:
    """From the id or from --revision; only the hub has any."""
    if options.revision is not None and source.kind != "hub":
        raise UsageError(f"--revision is for models of the hub: {source.name} has none.")
    if options.revision and source.revision and options.revision != source.revision:
        raise UsageError(f"two revisions, {source.revision} and {options.revision}: leave one out.")
    return options.revision or source.revision


def folder_checkpoint(folder: Path, options: LoadOptions, device: torch.device) -> Checkpoint:
    """Config, class, files, room, weights, judgement: each step refuses what the next could not bear."""
    architecture = architecture_of(folder, read_config(folder), options.trust_remote_code)
    blank = architecture.without_memory(folder)
    weights = read_weights(folder, options.allow_pickle)
    stored = stored_dtype(weights.dtypes.values())
    dtype = wanted_dtype(options.dtype, stored, device)
    if not options.allow_missing:
        refuse_oversize(folder, blank, weights)
    require_room_for_weights(
        folder, blank, dtype, in_place=dtype == stored and device.type == "cpu"
    )
    loaded, warnings = filled(folder, architecture, blank, weights, dtype, options)
    model = at_rest(loaded.model, None if options.device_map else device)
    identity = {
        "model_type": model.config.model_type,
        "class": type(model).__name__,
        "parameters": model.num_parameters(),
        "dtype": dtype_name(dtype),
        "dtype_of_file": dtype_name(stored),
        "device": options.device_map or str(device),
        "format": weights.format,
        "weight_sha256": weights.sha256,
    }
    if architecture.remote:
        identity["remote_code"] = True
    return Checkpoint(model, identity, folder, (*architecture.warnings, *warnings))


def filled(
    folder: Path,
    architecture: Architecture,
    blank: PreTrainedModel,
    weights: Weights,
    dtype: torch.dtype,
    options: LoadOptions,
) -> tuple[Loaded, list[str]]:
    """The model with its weights, judged."""
    with weights.opened() as state:
        usable = {name: state[name] for name in usable_names(weights, blank)}

        def once(seed: int) -> Loaded:
            return fill(folder, architecture, usable, dtype, options.device_map, seed)

        loaded = once(options.seed)
        refuse_mismatches(folder, loaded)
        computed = computed_weights(loaded.random(), blank, loaded, lambda: once(options.seed + 1))
    judged = judge(loaded, computed)
    prefix = foreign_prefix(weights.dtypes, blank) if judged.missing else None
    return loaded, report(folder, judged, prefix, options.allow_missing)


def usable_names(weights: Weights, blank: PreTrainedModel) -> list[str]:
    """Whole numbers are handed over only under last names that the model gives to whole numbers alone.

    Elsewhere transformers would cast them, and a spoilt type in a header would become wrong weights without a word.
    """
    kinds: dict[str, set[bool]] = {}
    for name, tensor in blank.state_dict().items():
        kinds.setdefault(last_name(name), set()).add(tensor.is_floating_point())
    return [
        name
        for name, dtype in weights.dtypes.items()
        if dtype in FLOATS or kinds.get(last_name(name)) == {False}
    ]


def last_name(name: str) -> str:
    return name.rpartition(".")[2]


def fill(
    folder: Path,
    architecture: Architecture,
    state: State,
    dtype: torch.dtype,
    device_map: str | None,
    seed: int,
) -> Loaded:
    """transformers places the tensors; whatever stays without one is drawn from the seed."""

    spread: dict[str, Any] = {"device_map": device_map} if device_map else {}

    def place() -> Any:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            return architecture.model_class.from_pretrained(
                None,
                config=architecture.config,
                state_dict=dict(state),
                dtype=dtype,
                ignore_mismatched_sizes=True,  # so that they are named, not only refused
                output_loading_info=True,
                **spread,
            )

    model, info = understood(folder, "its weights do not load", place)
    return Loaded(model, info["missing_keys"], info["unexpected_keys"], info["mismatched_keys"])


def refuse_oversize(folder: Path, blank: PreTrainedModel, weights: Weights) -> None:
    """Before memory is taken for a model that its files could never fill."""
    wanted = sum(parameter.numel() for parameter in blank.parameters())
    held = weights.floats()
    if wanted > OVERSIZE * held + SLACK:
        raise InputError(
            f"{folder}: config.json describes a model of {wanted} numbers, the files hold {held}: "
            "one of them is of another model."
        )


def at_rest(model: PreTrainedModel, device: torch.device | None) -> PreTrainedModel:
    """Evaluation mode, no gradients, no cache, on its device."""
    nn.Module.eval(model).requires_grad_(False)
    for module in model.modules():
        config = getattr(module, "config", None)
        for kept in KEPT:
            if config is not None and getattr(config, kept, False):
                setattr(config, kept, False)
    if model.dtype == torch.float64:
        model.set_experts_implementation("eager")  # the grouped product has no float64 kernel
    if device is not None and device.type != "cpu":
        nn.Module.to(model, device)
    return model


def random_checkpoint(source: Source, options: LoadOptions, device: torch.device) -> Checkpoint:
    """Seeded random weights; nothing is read."""
    from attncli.checkpoints.random.random_models import random_model

    if options.device_map is not None:
        raise UsageError(
            "--device-map spreads checkpoints: a random model is built on one --device."
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
