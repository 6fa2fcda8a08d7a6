"""The training loop: the same plan gives the same weights to the last bit, interrupted or not."""

import math
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from attncli.commands.reproduce.training_checkpoints import (
    SavedTraining,
    TrainingInterrupted,
    TrainingState,
)
from attncli.commands.reproduce.training_plan import TrainingPlan
from attncli.errors import InputError

EVERY = 2.0
"""Seconds between two savings."""

LossOfStep = Callable[[int], Tensor]
"""The loss of the network at step 0, 1, 2, … Its randomness comes from the step and a seed only,
never from torch's global generator, so that a step is the same whenever it runs."""

Tick = Callable[[int], None]
"""Called with the number of steps since its last call."""


AfterStep = Callable[[], object]
"""Called after every step; it may look at the network but does not change it."""

Watch = Callable[[int], AfterStep]
"""Called with the step at which the training begins or resumes; returns the callback of each step.
"""


def do_nothing_after_step(step: int) -> AfterStep:
    """Observe nothing."""
    return lambda: None


Watched = Callable[[str, nn.Module, Mapping[str, Tensor], int], AfterStep]
"""Called with a training's name, its network, inputs to observe it on, and the first step."""


def do_not_observe_training(
    name: str, network: nn.Module, inputs: Mapping[str, Tensor], step: int
) -> AfterStep:
    """Observe nothing."""
    return lambda: None


def ignore_progress(steps: int) -> None:
    """Ignore progress."""


def train_network(
    network: nn.Module,
    loss_of_step: LossOfStep,
    plan: TrainingPlan,
    saved: SavedTraining | None = None,
    advance: Tick = ignore_progress,
    watch: Watch = do_nothing_after_step,
) -> list[float]:
    """Train with Adam and return the loss of every step.

    With `saved`, resume from the file, save from time to time, at the end, and on Ctrl-C. A
    training that the file contains completely is not run again.
    """
    optimiser = torch.optim.Adam(network.parameters(), lr=plan.learning_rate)
    state = TrainingState(network, optimiser, [])
    if saved is not None:
        saved.restore_training_state(state, plan)
    advance(state.completed_steps)
    with limit_torch_threads():
        after = watch(state.completed_steps)

        def run_hook_and_report_progress(steps: int) -> None:
            after()
            advance(steps)

        if saved is None:
            for _ in iter_training_steps(state, loss_of_step, plan):
                run_hook_and_report_progress(1)
        else:
            with catch_keyboard_interrupts() as interrupted:
                resume_training(
                    state, loss_of_step, plan, saved, run_hook_and_report_progress, interrupted
                )
    return state.losses


def resume_training(
    state: TrainingState,
    loss_of_step: LossOfStep,
    plan: TrainingPlan,
    saved: SavedTraining,
    advance: Tick,
    interrupted: Callable[[], bool],
) -> None:
    """Run the remaining steps and save from time to time."""
    last_saved = time.monotonic()
    for step in iter_training_steps(state, loss_of_step, plan):
        advance(1)
        last, stop = step == plan.steps, interrupted()
        if last or stop or time.monotonic() - last_saved > EVERY:
            saved.save_training_state(state, plan)
            last_saved = time.monotonic()
        if stop:
            raise TrainingInterrupted(saved.path, step, plan.steps)


def iter_training_steps(
    state: TrainingState, loss_of_step: LossOfStep, plan: TrainingPlan
) -> Iterator[int]:
    """Run a step and yield how many are done."""
    while state.completed_steps < plan.steps:
        state.losses.append(train_step(state, loss_of_step, plan))
        yield state.completed_steps


def train_step(state: TrainingState, loss_of_step: LossOfStep, plan: TrainingPlan) -> float:
    """The loss before the step."""
    for group in state.optimiser.param_groups:
        group["lr"] = plan.learning_rate_at_step(state.completed_steps)
    state.network.zero_grad()
    loss = loss_of_step(state.completed_steps)
    number = float(loss.detach())
    if not math.isfinite(number):
        raise InputError(
            f"the training diverged: its loss is {number} at step {state.completed_steps} of {plan.steps}."
        )
    loss.backward()  # type: ignore[no-untyped-call]
    if plan.largest_gradient is not None:
        nn.utils.clip_grad_norm_(state.network.parameters(), plan.largest_gradient)
    state.optimiser.step()
    return number


@contextmanager
def catch_keyboard_interrupts() -> Iterator[Callable[[], bool]]:
    """Yield a function that tells whether Ctrl-C was pressed, to be called between two steps: in
    the middle of one the weights belong to neither step. Outside the main thread, which receives no
    signals, it is always False."""
    if threading.current_thread() is not threading.main_thread():
        yield lambda: False
        return
    pressed: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, frame: pressed.append(number))
    try:
        yield lambda: bool(pressed)
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def limit_torch_threads() -> Iterator[None]:
    """Networks this small are faster so, and their last bits do not depend on the number of cores."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
