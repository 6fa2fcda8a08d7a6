"""`attn reproduce circle`: what it refuses, what it writes, and that interrupted trainings go on."""

import json
import signal
from pathlib import Path
from typing import Any

import pytest
from commands import attn, files_in

from attncli.commands.reproduce.circle import circle_network

CIRCLE = ("reproduce", "circle")
SMALL = (*CIRCLE, "--width", "8", "--seeds", "2", "--train-steps", "6", "--recurrence", "12")


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (("circel",), "Did you mean 'circle'?"),
        ((*CIRCLE[1:], "gpt2"), "unexpected extra argument"),
        ((*CIRCLE[1:], "--layers", "3"), "no such option: --layers"),
        ((*CIRCLE[1:], "--exact"), "no such option: --exact"),
        ((*CIRCLE[1:], "--dtype", "float32"), "no such option: --dtype"),
        ((*CIRCLE[1:], "--remove-outlier"), "no such option: --remove-outlier"),
    ],
)
def test_what_the_experiment_does_not_have_is_no_option_of_it(
    arguments: tuple[str, ...], part: str
) -> None:
    outcome = attn("reproduce", *arguments)
    assert (outcome.code, outcome.out) == (2, "")
    assert part in outcome.err


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ((*CIRCLE[1:], "--recurrence", "0"), "--recurrence must be from 1 to 100,000, not 0."),
        ((*CIRCLE[1:], "--train-steps", "-1"), "--train-steps must be from 0 to 10,000,000, not -1."),
        ((*CIRCLE[1:], "--width", "9"), "--width 9 must be a positive multiple of the 2 heads."),
        ((*CIRCLE[1:], "--sweep", "tokens=1:4"),
         "cannot sweep 'tokens=1:4': write NAME=FROM:TO, NAME=FROM:TO:STEPS or NAME=1,2,4 with one of width."),
        ((*CIRCLE[1:], "--sweep", "width=8,16", "--width", "8"), "--width is what --sweep varies: leave it out."),
        ((*CIRCLE[1:], "--as-published", "--variants", "pure"),
         "--as-published has no SAN+MLP-noskip: the released MLP keeps its skip."),
        ((*CIRCLE[1:], "--fail-if", "colapse_share < 1"),
         "unknown metric in the gate 'colapse_share': did you mean 'collapse_share'?"),
    ],
)  # fmt: skip
def test_what_makes_no_sense_is_refused_by_name(arguments: tuple[str, ...], sentence: str) -> None:
    assert attn("reproduce", *arguments) == (2, "", f"attn: {sentence}\n")


def test_more_than_the_memory_is_refused_before_the_work() -> None:
    outcome = attn(*CIRCLE, "--width", "1000000000")
    assert outcome.code == 4
    assert outcome.err.startswith("attn: This training needs about ")


def document(*arguments: str) -> dict[str, Any]:
    outcome = attn(*SMALL, *arguments, "--format", "json")
    assert outcome.code == 0, outcome.err
    return json.loads(outcome.out)  # type: ignore[no-any-return]


def test_widths_variants_and_metrics_are_chosen_as_elsewhere() -> None:
    found = document("--no-skip", "--no-mlp", "--metric", "stable_rank")
    assert {row["variant"] for row in found["rows"]} == {"SAN"}
    assert {"stable_rank", "log10_residual", "collapse_share"} <= {
        r["metric"] for r in found["rows"]
    }
    swept = attn(*CIRCLE, "--sweep", "width=8:16", "--seeds", "1", "--train-steps", "0",
                 "--recurrence", "5", "--format", "json")  # fmt: skip
    assert {row["width"] for row in json.loads(swept.out)["rows"]} == {8, 16}
    assert "stable_rank" not in json.loads(swept.out)["metrics"]


@pytest.mark.slow
def test_gates_and_plots(tmp_path: Path) -> None:
    plot = tmp_path / "circle.svg"
    gate = "collapse_share[SAN] < 0.5"
    outcome = attn(*SMALL, "--fail-if", gate, "--plot", str(plot))
    assert outcome.code == 0, outcome.err
    assert outcome.out.startswith(
        "Runs in which the two points become one, at width 8: SAN 2 of 2 (step "
    )
    assert plot.read_text().startswith("<?xml")
    assert attn(*SMALL, "--fail-if", "collapse_share[SAN] > 0.5").code == 1


def interrupt_at(call: int, patch: pytest.MonkeyPatch) -> None:
    """Ctrl-C in the middle of the so manieth step of all trainings together."""
    made = 0
    honest = circle_network.BatchedCircleNetworks.forward

    def forward(self: Any, points: Any, drop: Any) -> Any:
        nonlocal made
        made += 1
        if made == call:
            signal.raise_signal(signal.SIGINT)
        return honest(self, points, drop)

    patch.setattr(circle_network.BatchedCircleNetworks, "forward", forward)


@pytest.mark.slow
@pytest.mark.parametrize("published", [False, True])
def test_an_interrupted_training_goes_on_to_the_same_numbers(
    published: bool, tmp_path: Path
) -> None:
    arguments = (*SMALL, "--save-training", str(tmp_path), "--format", "json")
    arguments += ("--as-published",) * published
    with pytest.MonkeyPatch.context() as patch:
        interrupt_at(11, patch)  # in the second training: 6 steps and one measurement are the first
        stopped = attn(*arguments)
    assert stopped.code == 130
    assert stopped.err.startswith("attn: interrupted at step 4 of 6, kept in ")
    assert len(files_in(tmp_path)) == 2
    resumed = attn(*arguments)
    assert len(files_in(tmp_path)) == 4
    again = attn(*arguments)
    whole = attn(*[part for part in arguments if part not in ("--save-training", str(tmp_path))])
    assert resumed.out == again.out
    assert json.loads(resumed.out)["rows"] == json.loads(whole.out)["rows"]


@pytest.mark.slow
def test_another_training_is_not_gone_on_from(tmp_path: Path) -> None:
    assert attn(*SMALL, "--save-training", str(tmp_path)).code == 0
    outcome = attn(*SMALL, "--seed", "1", "--save-training", str(tmp_path))
    assert outcome.code == 2
    assert "seeds is 0,1 there and 1,2 here" in outcome.err
