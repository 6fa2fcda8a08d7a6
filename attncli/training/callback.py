"""Callback for transformers' Trainer: `Trainer(…, callbacks=[AttnCallback(every=50)])`."""

import sys
from collections.abc import Iterable
from os import PathLike
from pathlib import Path
from types import FrameType
from typing import Any

from transformers import (
    PreTrainedTokenizerBase,
    Trainer,
    TrainerCallback,
    TrainerControl,
    TrainerState,
    TrainingArguments,
)

from attncli.declare.option_value_conversion import suggest_unknown_keywords
from attncli.errors import UsageError
from attncli.records import JsonObject
from attncli.training.monitor import (
    PROBE,
    Monitor,
    convert_monitor_arguments,
    validate_monitor_arguments,
)
from attncli.training.probe_text_runs import Probe
from attncli.training.stop_rules import ConditionTexts

FOLDER = "attn"
"""In the Trainer's output folder."""


class AttnCallback(TrainerCallback):
    """Looks at the model every `every` steps; the numbers go through the Trainer's own log to all it reports to.

    Keywords are those of `attncli.Monitor`. Texts are read by the Trainer's `processing_class` where there is no
    `tokenizer`; reports are kept in the folder `attn` of its output folder, or in `folder`. What `stop_if` says ends
    the training, and `stopped` says why.
    """

    @suggest_unknown_keywords
    def __init__(
        self,
        *,
        every: int = 50,
        probe: Probe = None,
        tokenizer: PreTrainedTokenizerBase | None = None,
        metrics: str | Iterable[str] = (),
        metric: str | Iterable[str] = (),
        stop_if: ConditionTexts = (),
        warn_if: ConditionTexts = (),
        measure: str = PROBE,
        folder: str | PathLike[str] | None = None,
        tokens: int | None = None,
        each_layer: bool = False,
    ) -> None:
        # the arguments, as long as nothing else has a name here
        settings = convert_monitor_arguments(locals())
        validate_monitor_arguments(settings)
        self.folder, self.tokenizer = settings.pop("folder"), tokenizer
        self.monitor_settings: JsonObject = {**settings, "probe": probe}
        self.trainer: Trainer | None = None
        self.monitor: Monitor | None = None

    @property
    def stopped(self) -> str:
        """Why the training was stopped; empty if it was not."""
        return "" if self.monitor is None else self.monitor.stopped

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **objects: Any
    ) -> None:
        """The model is on its device and wrapped by now."""
        self.trainer = find_calling_trainer()
        self.monitor = Monitor(
            self.trainer.model_wrapped,
            tokenizer=self.tokenizer or objects.get("processing_class"),
            folder=Path(args.output_dir or ".") / FOLDER if self.folder is None else self.folder,
            step=state.global_step,
            **self.monitor_settings,
        )
        self.log_metrics_and_stop_training(self.monitor.first, control)

    def on_step_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: object
    ) -> None:
        assert self.monitor is not None
        self.monitor.now = state.global_step - 1
        self.log_metrics_and_stop_training(self.monitor.step(), control)

    def on_train_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: object
    ) -> None:
        assert self.monitor is not None
        self.monitor.close()
        self.trainer = None

    def log_metrics_and_stop_training(
        self, numbers: dict[str, float], control: TrainerControl
    ) -> None:
        """Log the numbers, and stop the training if required."""
        assert self.trainer is not None
        if numbers:
            was_logging = control.should_log
            self.trainer.log(numbers)
            control.should_log = was_logging  # which the Trainer's log has taken for its own
        if self.stopped:
            control.should_training_stop = True


def find_calling_trainer() -> Trainer:
    """Find the calling Trainer on the stack: callbacks receive the model and the state, but not the
    logger."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        found = frame.f_locals.get("self")
        if isinstance(found, Trainer):
            return found
        frame = frame.f_back
    raise UsageError(
        "AttnCallback is for transformers' Trainer: in a loop of your own use `attncli.Monitor`."
    )
