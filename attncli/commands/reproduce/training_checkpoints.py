"""A training in a file: weights, optimiser, losses so far, and in the metadata what training it is.

    weights.{name}, first_moment.{name}, second_moment.{name}, adam_steps.{name}    of every parameter
    losses                                                    one for each step that is done, float64

A file of another training is refused, never overwritten.
"""

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor, nn

from attncli.commands.reproduce.training_plan import TrainingPlan
from attncli.errors import AttnError, InputError, UsageError
from attncli.io.safetensors_headers import read_header
from attncli.records import JsonObject

FORMAT = "attn-training"
OF_ADAM = {"first_moment": "exp_avg", "second_moment": "exp_avg_sq", "adam_steps": "step"}
"""Our names of Adam's per-parameter state, and torch's."""

WriteWhole = Callable[[Path, Callable[[Path], object]], None]
"""Calls a function on a temporary file that then replaces the target: atomic."""


class TrainingInterrupted(AttnError):
    """Raised on Ctrl-C during a training that is saved."""

    exit_code = 130

    def __init__(self, path: Path, step: int, steps: int) -> None:
        super().__init__(
            f"interrupted at step {step} of {steps}, kept in {path}: the same command goes on from there."
        )


@dataclass
class TrainingState:
    """A network on its way."""

    network: nn.Module
    optimiser: torch.optim.Adam
    losses: list[float]

    @property
    def completed_steps(self) -> int:
        return len(self.losses)


@dataclass(frozen=True)
class SavedTraining:
    """One training's file."""

    path: Path
    write_whole: WriteWhole

    def save_training_state(self, state: TrainingState, plan: TrainingPlan) -> None:
        tensors = {"losses": torch.tensor(state.losses, dtype=torch.float64)}
        for name, parameter in state.network.named_parameters():
            tensors[f"weights.{name}"] = parameter.detach().contiguous()
            moments = state.optimiser.state.get(parameter, {})
            tensors |= {
                f"{ours}.{name}": moments[theirs].contiguous()
                for ours, theirs in OF_ADAM.items()
                if theirs in moments
            }
        metadata = {
            "format": FORMAT,
            "version": "1",
            "training": json.dumps(convert_training_plan_to_json(plan)),
        }
        content = save(tensors, metadata)
        self.write_whole(self.path, lambda path: path.write_bytes(content))

    def restore_training_state(self, state: TrainingState, plan: TrainingPlan) -> None:
        """Restore the state from the file; do nothing where there is no file."""
        if not self.path.exists():
            return
        try:
            self.refuse_file_of_another_training(read_header(self.path).metadata, plan)
            load_weights_and_adam_moments(state, load(self.path.read_bytes()))
        except (InputError, SafetensorError, OSError, KeyError, ValueError, RuntimeError) as error:
            reason = str(error).rstrip(".")
            raise InputError(
                f"{self.path} cannot be read as a saved training ({reason}): remove it to begin anew."
            ) from error

    def refuse_file_of_another_training(self, metadata: dict[str, str], plan: TrainingPlan) -> None:
        """Another training's file is never gone on from, and never overwritten."""
        if metadata.get("format") != FORMAT:
            raise UsageError(
                f"{self.path} is no saved training: it is left alone; give another folder."
            )
        theirs: JsonObject = json.loads(metadata["training"])
        ours = convert_training_plan_to_json(plan)
        different = [name for name in {**ours, **theirs} if ours.get(name) != theirs.get(name)]
        if different:
            name = different[0]
            raise UsageError(
                f"{self.path} holds another training: {name} is {theirs.get(name)} there and {ours.get(name)} here; "
                "give another folder, or remove the file."
            )


def convert_training_plan_to_json(plan: TrainingPlan) -> JsonObject:
    """All that a training's result depends on, flat, as JSON gives it back."""
    plain = asdict(plan)
    settings: JsonObject = json.loads(json.dumps(plain.pop("identity") | plain))
    return settings


def load_weights_and_adam_moments(state: TrainingState, tensors: dict[str, Tensor]) -> None:
    """Weights and moments, as they were."""
    losses: list[float] = tensors["losses"].tolist()
    with torch.no_grad():
        for name, parameter in state.network.named_parameters():
            parameter.copy_(tensors[f"weights.{name}"])
            moments = {
                theirs: tensors[f"{ours}.{name}"]
                for ours, theirs in OF_ADAM.items()
                if f"{ours}.{name}" in tensors
            }
            if moments:
                state.optimiser.state[parameter] = moments
    state.losses[:] = losses
