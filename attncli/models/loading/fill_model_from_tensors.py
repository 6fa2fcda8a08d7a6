"""Fill a model from its files' tensors: transformers gets these tensors and nothing else to choose from."""

from collections.abc import Collection
from pathlib import Path
from typing import Any

import torch
from transformers import PreTrainedModel

from attncli.errors import InputError
from attncli.forward_argument_types import Inputs
from attncli.models.files.load_weights import LoadedWeights, State
from attncli.models.files.weight_hashing import FLOATS
from attncli.models.library_errors import translate_library_errors
from attncli.models.loading.loading_issues import LoadingResult
from attncli.models.loading.model_class_of_config import Architecture

OVERSIZE = 4
"""A model with this many times the numbers of its files is of another config; tied weights make it 2 at most."""
SLACK = 1_000_000
"""Numbers that a small checkpoint may lack of those its config describes before it is refused by size alone."""


def find_loadable_tensor_names(weights: LoadedWeights, blank: PreTrainedModel) -> list[str]:
    """Whole numbers are handed over only under last names that the model gives to whole numbers alone.

    Elsewhere transformers would cast them, and a spoilt type in a header would become wrong weights without a word.
    """
    kinds: dict[str, set[bool]] = {}
    for name, tensor in blank.state_dict().items():
        kinds.setdefault(find_last_part_of_tensor_name(name), set()).add(tensor.is_floating_point())
    return [
        name
        for name, dtype in weights.dtypes.items()
        if dtype in FLOATS or kinds.get(find_last_part_of_tensor_name(name)) == {False}
    ]


def refuse_names_differing_by_prefix(
    folder: Path, weights: LoadedWeights, blank: PreTrainedModel
) -> None:
    """Refuse names that differ by the body's prefix alone: transformers loads both tensors, and the last one stays."""
    own, available = blank.state_dict().keys(), weights.dtypes.keys()
    for name in sorted(available) if blank.base_model_prefix else ():
        longer = f"{blank.base_model_prefix}.{name}"
        if longer in available and (name in own) != (longer in own):
            raise InputError(
                f"{folder} holds both {name} and {longer}, which are one weight of {type(blank).__name__}: leave out the one that "
                "is not the model's."
            )


def refuse_integer_weights(
    folder: Path, weights: LoadedWeights, usable: Collection[str], loaded: LoadingResult
) -> None:
    """Refuse integer tensors where the model expects floats: packed weights, or a damaged header."""
    others = [name for name in weights.dtypes if name not in usable]
    lacking = sorted(loaded.missing) if others else []
    for name in lacking:
        holder = next(
            (each for each in others if do_tensor_names_differ_by_prefix(each, name)), None
        )
        if holder is not None:
            raise InputError(
                f"{folder}: tensor {holder} holds {weights.dtypes[holder]} where the model has floats, which is not read: give a "
                f"checkpoint in {', '.join(FLOATS)}."
            )


def do_tensor_names_differ_by_prefix(one: str, other: str) -> bool:
    """Whether two names differ by a prefix alone."""
    return f".{one}".endswith(f".{other}") or f".{other}".endswith(f".{one}")


def find_last_part_of_tensor_name(name: str) -> str:
    return name.rpartition(".")[2]


def assign_tensors_to_model(
    folder: Path,
    architecture: Architecture,
    state: State,
    dtype: torch.dtype,
    placing: Inputs,
    seed: int,
) -> LoadingResult:
    """Let transformers place the tensors; weights without one are drawn from the seed."""

    def load_model_from_state_dict() -> Any:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            return architecture.model_class.from_pretrained(
                None,
                config=architecture.config,
                state_dict=dict(state),
                dtype=dtype,
                ignore_mismatched_sizes=True,  # so that an error can name them
                output_loading_info=True,
                **placing,
            )

    model, info = translate_library_errors(
        folder, "its weights do not load", load_model_from_state_dict
    )
    return LoadingResult(
        model, info["missing_keys"], info["unexpected_keys"], info["mismatched_keys"]
    )


def refuse_model_larger_than_files(
    folder: Path, blank: PreTrainedModel, weights: LoadedWeights
) -> None:
    """Refuse a model that its files could never fill, before memory is taken for it."""
    needed = sum(parameter.numel() for parameter in blank.parameters())
    available = weights.count_floating_numbers()
    if needed > OVERSIZE * available + SLACK:
        raise InputError(
            f"{folder}: config.json describes a model of {needed} numbers, the files hold {available}: "
            "one of them is of another model."
        )
