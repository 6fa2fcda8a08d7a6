"""How fast numbers of heads move, and when they reach a limit."""

from typing import Any

import pytest
from test_numbers import METRICS
from training_runs import PROBE, llama, train

import attncli as attn
from attncli.records import Row
from attncli.training.metric_growth import HeadMetricHistory
from attncli.training.stop_rules import StopRules, parse_stop_conditions


def rows(value: float | None, metric: str = "max_logit") -> list[Row]:
    return [Row(metric, value, "1", layer=2, head=3, keys={"uniform": 0.5, "stack": "decoder"})]


def after(values: Any, metric: str = "max_logit", **how: Any) -> list[Row]:
    """At steps 10, 20, 30 …"""
    growth = HeadMetricHistory([metric], **how)
    for place, value in enumerate(values, start=1):
        growth.record_observation(10 * place, rows(value, metric))
    return list(growth.build_metric_growth_rows(rows(values[-1], metric)))


def test_a_line_says_when_the_limit_is_reached() -> None:
    grown, left = after([10.0, 15.0, 20.0])
    assert (grown.metric, grown.unit, grown.layer, grown.head) == ("max_logit_growth", "1/step", 2, 3)  # fmt: skip
    assert grown.value == pytest.approx(0.5)
    assert grown.keys == {"stack": "decoder", "error": pytest.approx(0.0, abs=1e-12)}
    assert (left.metric, left.unit, left.value) == ("max_logit_steps_left", "steps", pytest.approx(160.0))  # fmt: skip
    assert after([10.0, 15.0, 20.0], limits={"max_logit": 30.0})[1].value == pytest.approx(20.0)


@pytest.mark.parametrize(
    ("values", "why"),
    [
        ([10.0, 20.0], "n/a: a slope with its error needs 3 looks"),
        ([20.0, 10.0, 5.0], "n/a: it does not grow by more than 2 errors"),
        ([10.0, 30.0, 12.0, 28.0], "n/a: it does not grow by more than 2 errors"),
    ],
)
def test_where_nothing_is_said_of_the_limit(values: list[float], why: str) -> None:
    left = after(values)[1]
    assert (left.value, left.note) == (None, why)


def test_past_the_limit_no_step_is_left() -> None:
    assert after([90.0, 110.0, 105.0])[1].value == 0.0


def test_only_the_last_looks_count() -> None:
    grown = after([1000.0 * 0.5**n for n in range(20)] + [1.0 * n for n in range(10)])[0]
    assert grown.value == pytest.approx(0.1)


def test_a_look_without_a_number_leaves_no_slope() -> None:
    assert after([1.0, None, 3.0])[0].value is None


def test_what_no_condition_asks_for_is_not_followed() -> None:
    rules = StopRules(parse_stop_conditions(["max(max_logit) > 40", "sink_growth > 0.1"]), ())
    assert rules.list_metrics_with_growth(["sink", "entropy", "min_entropy"]) == [
        "sink",
        "min_entropy",
    ]
    assert rules.find_metric_limits() == {"max_logit": 40.0, "sink_growth": 0.1}


def test_a_condition_on_growth_waits_until_there_is_some() -> None:
    model = llama()
    monitor = attn.Monitor(model, every=2, probe=PROBE, metrics=METRICS[:4], stop_if="max(max_logit_growth) > -1", warn_if="min(max_logit_steps_left) < 1e9")  # fmt: skip
    seen = []
    train(model, 4, lambda: seen.append(bool(monitor.step() and monitor.stopped)))
    assert seen == [False, False, False, True]
    assert monitor.stopped.startswith("max(max_logit_growth) > -1: ")
