"""Roles over several draws of random tokens: what changes with the draw is told apart, a batch is its draws one by one."""

import random
from collections.abc import Sequence

import pytest
import torch
from oracles.forwards.tiny_models import TINY

from attncli.analysis.heads.classification.head_roles import (
    build_role_rows,
    classify_heads,
    format_role_counts,
)
from attncli.analysis.heads.forward_passes.head_observer import PassRequest, measure_forward_pass
from attncli.analysis.heads.forward_passes.uniform_attention_control import UniformAttentionControl
from attncli.analysis.heads.metric_selection import choose_metrics
from attncli.analysis.heads.model_inspection import HeadPlan, observe_repeated_tokens
from attncli.analysis.load_and_verify_model import PreparedModel
from attncli.capture import verify_capture
from attncli.capture.model_structure.blocks import find_block_stacks
from attncli.models.inputs.synthetic_texts import DRAWS, make_repeated_tokens
from attncli.models.random.dummy_inputs import make_example_inputs
from attncli.records import Row


def row(metric: str, values: Sequence[float], head: int = 0) -> Row:
    mean = sum(values) / len(values)
    return Row(metric, mean, "1", layer=0, head=head, keys={"uniform": 0.02}, spread=0.1, n=len(values), each=tuple(values))  # fmt: skip


@pytest.mark.parametrize(
    ("induction", "role", "mark"),
    [
        ((0.5, 0.6, 0.41), "induction", "I"),
        ((0.5, 0.6, 0.39), "induction?", "I?"),
        ((0.3, 0.1, 0.42), "induction?", "I?"),
        ((0.3, 0.1, 0.39), "sink", "S"),
    ],
)
def test_a_role_that_changes_with_the_draw_is_doubted(
    induction: Sequence[float], role: str, mark: str
) -> None:
    rows = [row("induction", induction), Row("sink_max", 0.8, "1", layer=0, head=0, keys={"uniform": 0.02})]  # fmt: skip
    (found,) = build_role_rows(classify_heads(rows, ["induction"]))
    assert (found.keys["role"], found.keys["mark"]) == (role, mark)
    if role != "sink":
        assert found.value == pytest.approx(sum(induction) / 3)
        assert (found.n, found.spread, found.each) == (3, 0.1, tuple(induction))
    if role == "induction?":
        assert f"{sum(score >= 0.4 for score in induction)} of 3 draws" in str(found.note)


def test_doubted_roles_are_counted_apart() -> None:
    rows = [row("induction", (0.9, 0.9)), row("induction", (0.9, 0.1), 1), row("induction", (0.8, 0.7), 2)]  # fmt: skip
    assert format_role_counts(classify_heads(rows, ["induction"]), 3) == "2 induction, 1 induction?"


def test_sure_roles_are_the_same_whatever_the_draws() -> None:
    """Heads whose scores scatter over draws: between two sets of eight hardly any sure role changes, where single draws do."""
    draw = random.Random(0)
    means = [draw.uniform(0.0, 0.8) for _ in range(400)]

    def roles(count: int) -> list[str]:
        rows = [row("induction", [min(1.0, max(0.0, draw.gauss(mean, 0.05))) for _ in range(count)], head) for head, mean in enumerate(means)]  # fmt: skip
        return [head.role.name for head in classify_heads(rows, ["induction"]) if head.role]

    def changes(count: int) -> int:
        pairs = zip(roles(count), roles(count), strict=True)
        return sum({first, second} == {"induction", "mixed"} for first, second in pairs)

    assert changes(1) >= 15
    assert changes(DRAWS) == 0


@pytest.mark.parametrize("name", ["gpt2", "bert", "t5", "llama"])
def test_a_batch_of_draws_is_the_draws_one_by_one(name: str) -> None:
    model = TINY[name]()[0]
    short = make_example_inputs(model, 8)
    subject = PreparedModel(
        model, find_block_stacks(model, short), verify_capture(model, short).shapes
    )
    plan = HeadPlan(choose_metrics(["roles"]))
    together = observe_repeated_tokens(subject, plan, UniformAttentionControl())
    drawn = make_repeated_tokens(model, 0)
    assert drawn is not None
    assert len(together) == DRAWS
    wanted = PassRequest(plan.metrics.repeated_token_metrics, period=drawn.period)
    for number, seen in enumerate(together):
        alone = measure_forward_pass(model, subject.stacks, drawn.select_text_as_batch(number), wanted, UniformAttentionControl(), "", lambda share: None)  # fmt: skip
        assert list(seen.heads) == list(alone.heads)
        for site, values in alone.heads.items():
            for metric, value in values.items():
                own = seen.heads[site][metric]
                if isinstance(value, str):
                    assert own == value
                    assert seen.nulls[site][metric] == alone.nulls[site][metric]
                else:
                    assert isinstance(own, torch.Tensor)
                    torch.testing.assert_close(own, value, rtol=1e-9, atol=1e-12)
                    torch.testing.assert_close(seen.nulls[site][metric], alone.nulls[site][metric])
