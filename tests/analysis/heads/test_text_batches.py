"""Many texts in few forward passes: the numbers of each are those that it has alone."""

import copy
from collections.abc import Callable
from typing import Any

import pytest
from oracles.forwards.tiny_models import TINY
from torch import Tensor, nn

import attncli as attn
from attncli.analysis.heads import model_inspection
from attncli.analysis.heads.forward_passes.text_batches import TextBatches
from attncli.errors import InputError
from attncli.models.random.dummy_inputs import make_example_inputs
from attncli.records import Row

LENGTHS = (11, 7, 11, 11, 7, 11, 11, 11, 7, 7)
METRICS = ["attention", "sinks", "copying", "memory", "gates", "max_logit", "max_activation", "token_cosine_gap"]  # fmt: skip


def texts_of(model: Any) -> list[dict[str, Tensor]]:
    return [make_example_inputs(model, length, seed) for seed, length in enumerate(LENGTHS)]


def rows_of(model: Any, **options: Any) -> tuple[Row, ...]:
    return tuple(attn.inspect_model(model, inputs=texts_of(model), **options).rows)


def count_texts(model: nn.Module, work: Callable[[], Any]) -> list[int]:
    """Run `work`, and return how many texts each forward pass over texts of these lengths holds."""
    seen: list[int] = []

    def count(_: nn.Module, args: Any, kwargs: dict[str, Tensor]) -> None:
        first = next(value for value in (*args, *kwargs.values()) if isinstance(value, Tensor))
        if first.shape[1] in LENGTHS:
            seen.append(len(first))

    handle = model.register_forward_pre_hook(count, with_kwargs=True)
    work()
    handle.remove()
    return seen


@pytest.mark.parametrize("name", ["gpt2", "bert", "t5"])
def test_texts_have_the_numbers_of_single_texts(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model = TINY[name]()[0]
    found: list[tuple[Row, ...]] = []
    passes = count_texts(model, lambda: found.append(rows_of(model, metric=METRICS)))
    assert max(passes) == LENGTHS.count(11)
    assert sum(passes) <= len(LENGTHS) + 3  # the inputs, one text alone, and the model's own draws
    monkeypatch.setattr(TextBatches, "take_batched_result", lambda *_: None)
    wanted = rows_of(model, metric=METRICS)
    assert len(found[0]) == len(wanted)
    for own, other in zip(found[0], wanted, strict=True):
        assert (own.metric, own.layer, own.head, own.n, own.note) == (other.metric, other.layer, other.head, other.n, other.note)  # fmt: skip
        assert own.each == pytest.approx(other.each, rel=1e-4, abs=1e-5)
        assert own.keys.keys() == other.keys.keys()
        for key, value in other.keys.items():
            near = pytest.approx(value, rel=1e-4, abs=1e-5) if isinstance(value, float) else value
            assert own.keys[key] == near


def test_the_numbers_of_a_text_are_one_array(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tensors of a few numbers each take ten times their memory, for every text."""
    seen: list[Any] = []
    build = model_inspection.build_head_and_state_rows
    monkeypatch.setattr(
        model_inspection,
        "build_head_and_state_rows",
        lambda runs, *more: [seen.append(runs), build(runs, *more)][1],
    )
    rows_of(TINY["gpt2"]()[0], metric=["attention", "sinks"])
    for text in seen[0].own.texts:
        numbers = [each for values in text.heads.values() for each in values.values() if isinstance(each, Tensor)]  # fmt: skip
        memories = {each.untyped_storage().data_ptr(): each for each in numbers}
        (memory,) = (each.untyped_storage() for each in memories.values())
        assert memory.nbytes() == 8 * sum(each.numel() for each in numbers)


def test_a_model_whose_texts_see_each_other_is_run_text_by_text() -> None:
    model = copy.deepcopy(TINY["gpt2"]()[0])

    def mix(_: nn.Module, __: Any, output: Any) -> Any:
        return output + output.mean(dim=0, keepdim=True) if isinstance(output, Tensor) else output

    model.h[0].mlp.register_forward_hook(mix)
    report = attn.inspect_model(model, inputs=texts_of(model), metric="entropy")
    assert sum("in a batch the model gives a text other numbers" in each for each in report.warnings) == 1  # fmt: skip
    alone = [attn.inspect_model(model, inputs=[text], metric="entropy") for text in texts_of(model)]  # fmt: skip
    for place, row in enumerate(report.rows):
        assert row.each == tuple(each.rows[place].value for each in alone)


def test_a_text_that_does_not_run_is_named() -> None:
    model = TINY["bert"]()[0]
    texts = texts_of(model)
    texts[4]["input_ids"] = texts[4]["input_ids"] + 10_000
    texts[7]["input_ids"] = texts[7]["input_ids"] + 10_000
    with pytest.raises(InputError, match="does not run on inputs 5 "):
        attn.inspect_model(model, inputs=texts, metric="entropy")
