"""The training monitor on trainings that attn runs: `attn reproduce … --watch-training N`."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from attncli.commands.reproduce.options import TrainingOptions, validate_number_or_default

if TYPE_CHECKING:
    from torch import Tensor, nn

    from attncli.commands.reproduce.training_loop import AfterStep, Watched

MOST_STEPS = 10_000_000


def build_training_callback(training: TrainingOptions, prefix: str) -> "Watched | None":
    """Callback with one report folder per training, next to the saved trainings; None if not
    requested."""
    if training.watch_training is None:
        return None
    folder = training.save_training
    assert folder is not None  # by what is declared of the two options
    every = validate_number_or_default("watch_training", training.watch_training, 1, 1, MOST_STEPS)

    def build_training_monitor(
        name: str, network: "nn.Module", inputs: "Mapping[str, Tensor]", step: int
    ) -> "AfterStep":
        from attncli.training.metric_growth import HEALTH
        from attncli.training.monitor import Monitor

        own = folder / f"{prefix}-{name}-attn"
        return Monitor(
            network, every=every, probe=inputs, metrics=HEALTH, folder=own, step=step
        ).step

    return build_training_monitor
