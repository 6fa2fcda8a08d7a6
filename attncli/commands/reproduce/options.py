"""Options of the commands that train small networks on the paper's tasks, and shared checks of
them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from attncli.declare.option_declarations import WRITES, Applies, declare_option
from attncli.errors import UsageError, quote_parameter_name
from attncli.options.run_and_output import split_comma_separated_names
from attncli.resource_limits import parse_whole_number

if TYPE_CHECKING:
    from attncli.commands.reproduce.training_checkpoints import SavedTraining

task_option = partial(declare_option, panel="Task")


@dataclass(frozen=True)
class SavedTrainingOptions:
    """How long networks are trained, and the folder where trainings are saved."""

    train_steps: int | None = task_option(
        metavar="N", usual=True, help="Number of training steps. [default: enough for the task]"
    )
    save_training: Path | None = task_option(
        metavar="DIR",
        usual=True,
        applies=WRITES,
        help="Save trainings in DIR; the same command resumes from there.",
    )


@dataclass(frozen=True)
class TrainingOptions(SavedTrainingOptions):
    """How a network is trained and monitored."""

    watch_training: int | None = task_option(
        metavar="N",
        applies=Applies(
            needs=("save_training",),
            why="{name} saves its reports next to the trainings: add `save_training`.",
        ),
        help=(
            "Measure the attention every N training steps, and save each report next to the training in "
            "--save-training."
        ),
    )


def validate_number_or_default(
    name: str, number: int | None, default: int, least: int, most: int
) -> int:
    """The user's number, validated, or else the default."""
    if number is None:
        return default
    if not least <= number <= most:
        raise UsageError(
            f"{quote_parameter_name(name)} must be from {least} to {most:,}, not {number}."
        )
    return number


def parse_whole_numbers(
    arguments: Sequence[str], most: int, wrong: Callable[[str], str]
) -> list[int]:
    """Parse whole numbers from 1 on, smallest first; `wrong` gives the error message for another
    text."""
    texts = split_comma_separated_names(arguments)
    for text in texts:
        if not 1 <= (parse_whole_number(text) or 0) <= most:
            raise UsageError(wrong(text))
    return sorted({int(text) for text in texts})


def open_training_folder(
    folder: Path | None, prefix: str
) -> "Callable[[str], SavedTraining | None]":
    """One file for each training in the folder, which is created if missing."""
    if folder is None:
        return lambda name: None
    from attncli.io.atomic_files import (
        create_folder_if_missing,
        require_writable_path,
        write_atomically,
    )

    create_folder_if_missing(folder)
    require_writable_path(folder / f"{prefix}.safetensors")

    def open_saved_training(name: str) -> "SavedTraining":
        from attncli.commands.reproduce.training_checkpoints import SavedTraining

        return SavedTraining(folder / f"{prefix}-{name}.safetensors", write_atomically)

    return open_saved_training
