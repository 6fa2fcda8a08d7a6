"""Check that every weight of the model came from its files, and every weight of the files was used.

transformers fills what it misses with random numbers and goes on. Here the body, everything that a state runs
through, must come from the files; only heads outside it may be missing, or be of another task.
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from transformers import PreTrainedModel

from attncli.errors import InputError, format_count
from attncli.models.loading.loaded_model import remove_model_head

POOLER = "pooler"
"""A head that transformers adds to many bodies; no block reads it."""
SHOWN = 3


@dataclass(frozen=True, slots=True)
class LoadingResult:
    """The result of loading one model."""

    model: PreTrainedModel
    missing: Collection[str]
    """As transformers reports them: without those that a class declares ignorable (SeamlessM4T's encoders)."""
    unexpected: Collection[str]
    mismatched: Collection[tuple[str, Sequence[int], Sequence[int]]]

    def find_weights_not_from_files(self) -> list[str]:
        """Weights that did not come from the files, as reported and as seen on the tensors themselves."""
        spread = len(set((getattr(self.model, "hf_device_map", None) or {}).values())) > 1
        state = {} if spread else self.model.state_dict(keep_vars=True)  # moving drops the mark
        unmarked = {
            name
            for name, tensor in state.items()
            if not getattr(tensor, "_is_hf_initialized", False)
        }
        return sorted(unmarked.union(self.missing))


@dataclass(frozen=True, slots=True)
class LoadingIssues:
    """What is wrong with a loaded model, by how much it matters."""

    missing: tuple[str, ...] = ()
    """Missing weights of the body: its numbers would be random."""
    missing_heads: tuple[str, ...] = ()
    unexpected: tuple[str, ...] = ()
    """Unexpected weights inside the body: the files belong to another model."""
    unexpected_heads: tuple[str, ...] = ()


def refuse_weight_shape_mismatches(where: Path, loaded: LoadingResult) -> None:
    """Refuse weights of another shape: the config and the files belong to two models."""
    found = sorted(loaded.mismatched, key=lambda each: each[0])
    if found:
        shown = [f"{name} is {tuple(ours)} not {tuple(expected)}" for name, ours, expected in found]
        raise InputError(
            f"{where}: config.json and the weights disagree about {format_count(len(found), 'shape')} ({format_first_weight_names(shown)}): "
            "one of them is of another model."
        )


def classify_loading_issues(loaded: LoadingResult, computed: Collection[str]) -> LoadingIssues:
    """Classify what did not fit; `computed` weights came from no file, but the model's code makes them right."""
    missing = [name for name in loaded.find_weights_not_from_files() if name not in computed]
    heads = {name for name in missing if is_weight_outside_body(loaded.model, name)}
    unexpected = sorted(loaded.unexpected)
    outside = {name for name in unexpected if not is_body_weight(loaded.model, name)}
    return LoadingIssues(
        missing=tuple(name for name in missing if name not in heads),
        missing_heads=tuple(name for name in missing if name in heads),
        unexpected=tuple(name for name in unexpected if name not in outside),
        unexpected_heads=tuple(name for name in unexpected if name in outside),
    )


def is_weight_outside_body(model: PreTrainedModel, name: str) -> bool:
    """Whether a weight is outside the body: outside the base model, in a pooler, or in the output over the vocabulary."""
    if POOLER in name.split("."):
        return True
    owner = model.get_submodule(name.rpartition(".")[0])
    body = remove_model_head(model)
    if body is not model:
        return all(owner is not module for module in body.modules())
    return owner is model.get_output_embeddings()  # type: ignore[no-untyped-call]


def is_body_weight(model: PreTrainedModel, name: str) -> bool:
    """Whether an unexpected weight belongs to the body: the body has a submodule of the name's first part."""
    body, prefix = remove_model_head(model), model.base_model_prefix
    own = name if hasattr(body, prefix) else name.removeprefix(f"{prefix}.")
    first, *rest = own.split(".")
    if POOLER in (first, *rest):
        return False
    return hasattr(body, first) if rest else own != name


def report_loading_issues(
    where: Path, issues: LoadingIssues, prefix: str | None, allow_missing: bool
) -> list[str]:
    """Refuse issues that make numbers wrong; warn of the rest."""
    if issues.missing and not allow_missing:
        hint = (
            f"its names begin with '{prefix}', which this model does not"
            if prefix
            else ("config.json and the files do not belong together")
        )
        raise InputError(
            f"{where} lacks {format_count_and_names(issues.missing, 'weight')} of the model: {hint}; "
            "`allow_missing=True` would leave them random."
        )
    if issues.unexpected:
        raise InputError(
            f"{where} holds {format_count_and_names(issues.unexpected, 'weight')} that the model of config.json has no place for: "
            "the config is of another model."
        )
    warnings = []
    for names, text in (
        (issues.missing, "not in the files and left random, as was asked for"),
        (issues.missing_heads, "not in the files; random, but outside the body"),
        (issues.unexpected_heads, "in the files but not in the model; outside the body"),
    ):
        if names:
            warnings.append(f"{where}: {format_count_and_names(names, 'weight')}: {text}.")
    return warnings


def format_count_and_names(names: Sequence[str], word: str) -> str:
    return f"{format_count(len(names), word)} ({format_first_weight_names(names)})"


def format_first_weight_names(names: Sequence[str]) -> str:
    """Format the first few names."""
    return ", ".join([*names[:SHOWN], "…"] if len(names) > SHOWN else names)


def find_wrapper_prefix_of_names(stored: Iterable[str], model: PreTrainedModel) -> str | None:
    """The prefix that all names of the files have and none of the model's, as wrappers add it."""
    stored = list(stored)
    known = set(model.state_dict())
    prefix = ""
    for word in min(stored, default="").split(".")[:-1]:
        prefix += f"{word}."
        if not all(name.startswith(prefix) for name in stored):
            return None
        if any(name.removeprefix(prefix) in known for name in stored):
            return prefix
    return None


def find_weights_computed_by_code(
    names: Collection[str],
    blank: PreTrainedModel,
    loaded: LoadingResult,
    again: Callable[[], LoadingResult],
) -> set[str]:
    """Weights that the model's code computes itself: sinusoid positions, index tables.

    They are no trained parameters (buffers, or frozen from the start), no mere zeros or ones such as an untrained
    bias, and the same when the model is loaded once more from another seed.
    """
    fixed = {
        name
        for name, tensor in blank.state_dict(keep_vars=True).items()
        if not tensor.requires_grad
    }
    candidates = [name for name in names if name in fixed]
    if not candidates:
        return set()
    first, second = loaded.model.state_dict(), again().model.state_dict()
    return {
        name for name in candidates if is_weight_computed_by_code(name, first[name], second[name])
    }


def is_weight_computed_by_code(name: str, one: torch.Tensor, other: torch.Tensor) -> bool:
    if name.endswith("num_batches_tracked"):  # counts training steps; evaluation never reads it
        return True
    constant = one.numel() > 0 and bool((one == one.flatten()[0]).all())
    return not constant and torch.equal(one, other)
