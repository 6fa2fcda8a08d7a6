"""What tasks ask: laws over all of them, and their labels against another computation."""

import numpy as np
import pytest
from scipy.spatial import ConvexHull

from attncli.commands.reproduce.tasks import TASKS, Examples, Task
from attncli.commands.reproduce.tasks.convex_hull import mark_hull_corners
from attncli.commands.reproduce.train_labeller import QUESTIONS, make_batch_sampler


def drawn(name: str, seed: int, number: int = 40) -> tuple[Task, Examples]:
    task: Task = TASKS[name]()
    return task, task.draw(np.random.default_rng(seed), number)


@pytest.mark.parametrize("name", TASKS.names())
def test_every_task_draws_what_it_says(name: str) -> None:
    task, examples = drawn(name, 0)
    assert examples.labels.shape == (40, task.length) == examples.inputs.shape[:2]
    assert set(np.unique(examples.labels)) <= set(range(task.labels))
    if task.vocabulary is None:
        assert examples.inputs.shape[2:] == (2,)
        assert examples.inputs.dtype == np.float32  # as the weights
    else:
        assert examples.inputs.ndim == 2
        assert 0 <= examples.inputs.min() <= examples.inputs.max() < task.vocabulary
    assert task.sizes.width % task.sizes.heads == 0


@pytest.mark.parametrize("name", TASKS.names())
def test_a_seed_gives_the_same_sequences(name: str) -> None:
    (_, one), (_, same), (_, other) = drawn(name, 1), drawn(name, 1), drawn(name, 2)
    assert np.array_equal(one.inputs, same.inputs)
    assert np.array_equal(one.labels, same.labels)
    assert not np.array_equal(one.inputs, other.inputs)


@pytest.mark.parametrize("name", TASKS.names())
def test_every_step_has_a_batch_of_its_own(name: str) -> None:
    task: Task = TASKS[name]()
    asked = task.draw(np.random.default_rng([5, QUESTIONS]), task.test_count)
    batch = make_batch_sampler(task, 5, asked)
    first, again, second = batch(0), batch(0), batch(1)
    assert first.labels.shape == (task.batch, task.length)
    assert np.array_equal(first.inputs, again.inputs)
    assert not np.array_equal(first.inputs, second.inputs)
    known = {sequence.tobytes() for sequence in asked.inputs}
    seen = [sequence.tobytes() in known for sequence in first.inputs]
    assert all(seen) if task.by_heart else not any(seen)


def test_sorting_puts_the_digits_in_order() -> None:
    _, (digits, labels) = drawn("sort", 3)
    assert [sorted(sequence) for sequence in digits.tolist()] == labels.tolist()


def test_corners_are_those_of_another_library() -> None:
    _, (points, labels) = drawn("convex-hull", 4, number=300)
    for cloud, found in zip(points, labels, strict=True):
        assert set(np.flatnonzero(found)) == set(ConvexHull(cloud).vertices.tolist())


def test_corners_of_a_square_with_a_point_inside() -> None:
    square = [[0.0, 0.0], [1.0, 0.0], [1.0, 1.0], [0.0, 1.0], [0.4, 0.7]]
    assert mark_hull_corners(np.array([square])).tolist() == [[1, 1, 1, 1, 0]]


def test_labels_to_memorise_follow_from_nothing() -> None:
    _, (words, labels) = drawn("memorise", 5, number=4000)
    assert labels.mean() == pytest.approx(0.5, abs=0.01)
    assert labels[words == 0].mean() == pytest.approx(0.5, abs=0.02)
    counts = np.bincount(words.ravel())
    assert counts[0] / counts[1] == pytest.approx(2.0, rel=0.05)
    assert counts[0] / counts[9] == pytest.approx(10.0, rel=0.1)
