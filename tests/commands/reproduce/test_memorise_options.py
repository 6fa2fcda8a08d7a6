"""`memorise` with sequences of one's own: tokens of a file, dropout that a seed decides, and what makes trainings differ."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
import torch
from commands import attn

import attncli
from attncli.commands.reproduce.tasks import Sizes
from attncli.commands.reproduce.tasks.memorise import ReleasedScriptSettings, TokenStream, memorise
from attncli.commands.reproduce.token_sequence_files import read_and_renumber_tokens
from attncli.commands.reproduce.train_labeller import QUESTIONS, build_training_plan, train_labeller
from attncli.errors import InputError

TINY = Sizes(layers=1, heads=2, width=8)
QUICK = ("reproduce", "memorise", "--layers", "1", "--width", "8", "--train-steps", "2", "--seeds", "1", "-q")  # fmt: skip


def test_words_of_a_text_in_their_order(tmp_path: Path) -> None:
    """Against a walk by hand: equal numbers where words are equal, and nowhere else."""
    (tmp_path / "text.txt").write_text("The cat, the hat.\n\nA cat!")
    stream = read_and_renumber_tokens(tmp_path / "text.txt", 8)
    words = re.findall(r"[a-z]+|[,.!]", "the cat, the hat. a cat!")[:8]
    assert len(stream.tokens) == 8
    assert set(stream.tokens.tolist()) == set(range(len(set(words))))
    alike = np.array(words)[:, None] == np.array(words)[None, :]
    assert ((stream.tokens[:, None] == stream.tokens[None, :]) == alike).all()
    with pytest.raises(InputError, match="holds 9 tokens, `sequences` times `length` are 64"):
        read_and_renumber_tokens(tmp_path / "text.txt", 64)


@pytest.mark.parametrize("content", ["7 7 30 2\n30 9", "[[7, 7, 30, 2], [30, 9]]", "[7,7,30,2,30,9]"])  # fmt: skip
def test_token_ids_are_numbered_anew(content: str, tmp_path: Path) -> None:
    (tmp_path / "ids.txt").write_text(content)
    assert read_and_renumber_tokens(tmp_path / "ids.txt", 6).tokens.tolist() == [1, 1, 3, 0, 3, 2]


def test_sequences_are_the_streams_and_labels_the_seeds() -> None:
    task = memorise(4, 3, TokenStream(np.arange(12) % 5, "x"))
    one, other = (task.draw(np.random.default_rng([seed, QUESTIONS]), 4) for seed in (0, 1))
    assert one.inputs.ravel().tolist() == [k % 5 for k in range(12)]
    assert np.array_equal(one.inputs, other.inputs)
    assert not np.array_equal(one.labels, other.labels)
    assert (task.vocabulary, task.test_count, task.length) == (5, 4, 3)


def test_the_released_script_is_what_is_planned() -> None:
    """run_memorization.py: 500 x 128, --hidden_dim 250 --width 2 --depth 6, 3e-4, batches of 8, 50 epochs of 63."""
    task = memorise(500, 128, TokenStream(np.arange(64_000), "x"), published=True)
    assert task.sizes == Sizes(layers=6, heads=2, width=250)
    assert (task.batch, task.learning_rate, task.dropout) == (8, 3e-4, 0.1)
    assert task.steps == 50 * 63 == ReleasedScriptSettings().steps
    plan = build_training_plan("memorise", task, task.sizes, 3150, 0)
    assert [plan.learning_rate_at_step(step) / 3e-4 for step in (0, 1575, 3149)] == pytest.approx(
        [1.0, 0.5, 1 / 3150]
    )
    assert plan.largest_gradient == 1.0


def test_dropout_is_the_seeds_alone_and_ends_with_the_training() -> None:
    """Torch's own generator is neither asked nor moved; without dropout the losses are others."""
    from dataclasses import replace

    task = replace(memorise(6, 4), batch=6)
    made = []
    for rate, state in ((0.3, 1), (0.3, 2), (0.0, 1)):
        torch.manual_seed(state)
        before = torch.random.get_rng_state()
        plan = build_training_plan("memorise", task, TINY, 4, 0)
        after = train_labeller(replace(task, dropout=rate), TINY, plan, 0)
        assert torch.equal(before, torch.random.get_rng_state())
        assert not after.network.training
        made.append(torch.cat([each.flatten() for each in after.network.state_dict().values()]))
    assert torch.equal(made[0], made[1])
    assert not torch.equal(made[0], made[2])


def test_the_tasks_own_training_has_the_name_that_it_had() -> None:
    """So that trainings that were kept are gone on with."""
    assert set(build_training_plan("memorise", memorise(), TINY, 4, 0).identity) == {"task", "layers", "heads", "width", "batch", "sequences", "seed"}  # fmt: skip
    other = build_training_plan(
        "memorise", memorise(9, 5, TokenStream(np.arange(45), "y"), True), TINY, 4, 0
    )
    assert other.identity["tokens_from"] == "y"
    assert (other.identity["length"], other.identity["dropout"]) == (5, 0.1)


def test_a_run_says_what_was_learned(tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_text("one two three four " * 10)
    done = attn(*QUICK, "--sequences", "5", "--length", "4", "--tokens-from", str(tmp_path / "text.txt"), "--format", "json")  # fmt: skip
    assert done.code == 0
    report = json.loads(done.out)
    assert report["input"] == {"sequences": 5, "tokens": 4}
    assert report["source"]["definition"].startswith(
        "5 sequences of 4 tokens (the tokens of a file"
    )
    assert "4 different ones" in report["source"]["definition"]
    plain = attncli.reproduce.memorise(layers=1, width=8, train_steps=2, seeds=1)
    assert plain.source["definition"].startswith("100 sequences of 200 words")


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("reproduce", "sort", "--length", "4"), "no such option: --length"),
        (("reproduce", "convex-hull", "--as-published"), "no such option: --as-published"),
        (("reproduce", "memorise", "--as-published"), "name a file of words or token ids with --tokens-from"),
        (("reproduce", "memorise", "--tokens-from", "no-such-file"), "no-such-file cannot be read"),
        (("reproduce", "memorise", "--sequences", "0"), "--sequences must be from 1 to 100,000"),
        (("reproduce", "memorise", "--length", "1"), "--length must be from 2 to 4,096"),
        (("paths", "--sequences", "4"), "--sequences has become a command: attn reproduce memorise"),
    ],
)  # fmt: skip
def test_what_is_refused(options: tuple[str, ...], says: str) -> None:
    done = attn(*options)
    assert done.code in (2, 3)
    assert says in done.err
    assert done.err.count("\n") == 1
