"""Training is the same to the last bit, interrupted or not; and no training is taken for another one."""

import signal
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from attncli.commands.reproduce import training_loop
from attncli.commands.reproduce.training_checkpoints import SavedTraining, TrainingInterrupted
from attncli.commands.reproduce.training_loop import train_network
from attncli.commands.reproduce.training_plan import TrainingPlan
from attncli.errors import InputError, UsageError
from attncli.io.atomic_files import write_atomically

PLAN = TrainingPlan(
    steps=30,
    learning_rate=0.01,
    warm_up=5,
    cool_down=10,
    largest_gradient=1.0,
    identity={"seed": 3},
)


class Practice:
    """A small network, and the loss of its steps; Ctrl-C is pressed in the middle of one of them."""

    def __init__(self, interrupted_at: int | None = None, seed: int = 3) -> None:
        torch.manual_seed(seed)
        self.network = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2))
        self.interrupted_at = interrupted_at
        self.made: list[int] = []

    def loss(self, step: int) -> Tensor:
        if step == self.interrupted_at:
            signal.raise_signal(signal.SIGINT)
        self.made.append(step)
        generator = torch.Generator().manual_seed(step)
        given = torch.randn((16, 4), generator=generator)
        return nn.functional.mse_loss(self.network(given), given[:, :2] * given[:, 2:])

    @property
    def weights(self) -> list[Tensor]:
        return [parameter.detach() for parameter in self.network.parameters()]


@pytest.fixture
def kept(tmp_path: Path) -> SavedTraining:
    return SavedTraining(tmp_path / "practice.safetensors", write_atomically)


def equal(one: Practice, other: Practice) -> bool:
    return all(map(torch.equal, one.weights, other.weights))


@pytest.mark.parametrize("step", [0, 1, 13, 29])
def test_interrupted_training_goes_on_to_the_same_bits(kept: SavedTraining, step: int) -> None:
    whole, broken, resumed = Practice(), Practice(interrupted_at=step), Practice(seed=4)
    losses = train_network(whole.network, whole.loss, PLAN)
    with pytest.raises(
        TrainingInterrupted, match=f"at step {step + 1} of 30, kept in .*practice.safe"
    ):
        train_network(broken.network, broken.loss, PLAN, kept)
    assert train_network(resumed.network, resumed.loss, PLAN, kept) == losses
    assert resumed.made == list(range(step + 1, 30))
    assert equal(whole, resumed)


def test_a_training_that_dies_goes_on_from_what_was_kept_last(
    kept: SavedTraining, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(training_loop, "EVERY", 0.0)

    class Killed(BaseException):
        pass

    whole, broken, resumed = Practice(), Practice(), Practice()
    losses = train_network(whole.network, whole.loss, PLAN)

    def dies(step: int) -> Tensor:
        if step == 20:
            raise Killed
        return broken.loss(step)

    with pytest.raises(Killed):
        train_network(broken.network, dies, PLAN, kept)
    assert train_network(resumed.network, resumed.loss, PLAN, kept) == losses
    assert resumed.made == list(range(20, 30))
    assert equal(whole, resumed)


def test_weights_that_nothing_depends_on_are_kept_too(kept: SavedTraining) -> None:
    def with_idle_weights() -> Practice:
        practice = Practice()
        practice.network.register_parameter("idle", nn.Parameter(torch.ones(3)))
        return practice

    broken, resumed = with_idle_weights(), with_idle_weights()
    broken.interrupted_at = 7
    with pytest.raises(TrainingInterrupted):
        train_network(broken.network, broken.loss, PLAN, kept)
    whole = Practice()
    assert train_network(resumed.network, resumed.loss, PLAN, kept) == train_network(
        whole.network, whole.loss, PLAN
    )


def test_a_finished_training_is_not_made_again(kept: SavedTraining) -> None:
    first, again = Practice(), Practice(seed=5)
    losses = train_network(first.network, first.loss, PLAN, kept)
    told: list[int] = []
    assert train_network(again.network, again.loss, PLAN, kept, told.append) == losses
    assert equal(first, again)
    assert (again.made, told) == ([], [30])


def test_who_watches_is_told_of_every_step_once(kept: SavedTraining) -> None:
    told: list[int] = []
    broken = Practice(interrupted_at=11)
    with pytest.raises(TrainingInterrupted):
        train_network(broken.network, broken.loss, PLAN, kept, told.append)
    assert sum(told) == 12
    told.clear()
    resumed = Practice()
    train_network(resumed.network, resumed.loss, PLAN, kept, told.append)
    assert sum(told) == 30


def test_without_a_file_ctrl_c_stays_what_it_is() -> None:
    """Also where the tests themselves run in the background, with interrupts ignored."""
    broken = Practice(interrupted_at=2)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            train_network(broken.network, broken.loss, PLAN)
    finally:
        signal.signal(signal.SIGINT, before)


def test_afterwards_ctrl_c_is_what_it_was(kept: SavedTraining) -> None:
    before = signal.getsignal(signal.SIGINT)
    practice = Practice()
    train_network(practice.network, practice.loss, PLAN, kept)
    assert signal.getsignal(signal.SIGINT) is before


@pytest.mark.parametrize(
    ("other", "said"),
    [
        (replace(PLAN, steps=40), "steps is 30 there and 40 here"),
        (replace(PLAN, learning_rate=0.02), "learning_rate is 0.01 there and 0.02 here"),
        (replace(PLAN, identity={"seed": 4}), "seed is 3 there and 4 here"),
        (replace(PLAN, identity={"seed": 3, "task": "x"}), "task is None there and x here"),
    ],
)
def test_another_training_is_refused_by_name(
    kept: SavedTraining, other: TrainingPlan, said: str
) -> None:
    first, second = Practice(), Practice()
    train_network(first.network, first.loss, PLAN, kept)
    before = kept.path.read_bytes()
    with pytest.raises(UsageError, match=f"holds another training: {said}"):
        train_network(second.network, second.loss, other, kept)
    assert kept.path.read_bytes() == before


def test_a_file_of_something_else_is_left_alone(kept: SavedTraining) -> None:
    from safetensors.torch import save_file

    save_file({"x": torch.zeros(3)}, kept.path)
    practice = Practice()
    with pytest.raises(UsageError, match="is no saved training: it is left alone"):
        train_network(practice.network, practice.loss, PLAN, kept)


@pytest.mark.parametrize("damage", [lambda b: b[: len(b) // 2], lambda b: b"", lambda b: b"{" * 99])
def test_a_damaged_file_is_said(kept: SavedTraining, damage: Callable[[bytes], bytes]) -> None:
    practice = Practice()
    train_network(practice.network, practice.loss, PLAN, kept)
    kept.path.write_bytes(damage(kept.path.read_bytes()))
    with pytest.raises(InputError, match="cannot be read as a saved training"):
        train_network(practice.network, practice.loss, PLAN, kept)


def test_another_network_under_the_same_plan_is_said(kept: SavedTraining) -> None:
    practice = Practice()
    train_network(practice.network, practice.loss, PLAN, kept)
    other = nn.Sequential(nn.Linear(4, 9), nn.Tanh(), nn.Linear(9, 2))
    with pytest.raises(InputError, match="cannot be read as a saved training"):
        train_network(other, practice.loss, PLAN, kept)


def test_divergence_is_said_with_its_step() -> None:
    practice = Practice()
    with pytest.raises(InputError, match="diverged: its loss is inf at step 4 of 30"):
        train_network(
            practice.network,
            lambda step: practice.loss(step) * (float("inf") if step == 4 else 1.0),
            PLAN,
        )


def test_the_rate_rises_stays_and_falls() -> None:
    plan = TrainingPlan(steps=10, learning_rate=1.0, warm_up=3, cool_down=4)
    rates = [plan.learning_rate_at_step(step) for step in range(10)]
    assert rates == [0.25, 0.5, 0.75, 1.0, 1.0, 1.0, 0.8, 0.6, 0.4, 0.2]
    assert {
        TrainingPlan(steps=5, learning_rate=0.3).learning_rate_at_step(step) for step in range(5)
    } == {0.3}


def test_the_number_of_threads_is_as_before() -> None:
    before = torch.get_num_threads()
    practice = Practice()
    train_network(practice.network, practice.loss, replace(PLAN, steps=1))
    assert torch.get_num_threads() == before
