"""What surrounds a caller's code, and who else asks at the same time, changes no number and stays as it was."""

import copy
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from threading import Barrier, Event, Thread
from typing import Any

import pytest
import torch
from helpers import LONG
from small_checkpoints import model_of
from torch import nn
from torch.overrides import _get_current_function_mode_stack
from transformers import AttentionInterface, PreTrainedModel

import attncli as attn
from attncli.blas_threads_and_lock import TURNS
from attncli.errors import UsageError

RANDOM = "random:gpt2?layers=1&width=16&heads=2"
ASKED: dict[str, Callable[[Any], attn.Answer]] = {
    "inspect_model": lambda model: attn.inspect_model(model, random_tokens=8),
    "rank_collapse": lambda model: attn.rank_collapse(model, random_tokens=8),
    "paths": lambda model: attn.paths(model, random_tokens=8),
}


@contextmanager
def default_type() -> Iterator[None]:
    torch.set_default_dtype(torch.float64)
    try:
        yield
    finally:
        torch.set_default_dtype(torch.float32)


WITHIN: dict[str, Callable[[], AbstractContextManager[Any]]] = {
    "autocast": lambda: torch.autocast("cpu", torch.bfloat16),
    "autocast of another device": lambda: torch.autocast("xpu", torch.bfloat16),
    "inference mode": torch.inference_mode,
    "no gradients": torch.no_grad,
    "float64": default_type,
    "meta device": lambda: torch.device("meta"),
}


def state() -> list[Any]:
    """Of the process and the thread."""
    return [
        torch.get_default_dtype(),
        torch.get_default_device(),
        torch.is_autocast_enabled("cpu"),
        torch.is_inference_mode_enabled(),
        torch.is_grad_enabled(),
        torch.get_rng_state().tolist() if torch.get_default_device().type == "cpu" else None,
        dict(AttentionInterface._global_mapping),
        len(_get_current_function_mode_stack()),
        TURNS.lock.locked(),
    ]


FAST = [("inspect_model", "autocast"), ("paths", "inference mode")]
EVERY = [pytest.param(name, around, marks=() if (name, around) in FAST else pytest.mark.slow) for name in ASKED for around in WITHIN]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(("name", "around"), EVERY)
def test_a_model_is_asked_in_its_own_precision(name: str, around: str) -> None:
    """One of the caller's, and one that is built for the question."""
    model = model_of("GPT2LMHeadModel")
    plain, made = ASKED[name](model).rows, ASKED[name](RANDOM).rows
    with WITHIN[around]():
        before = state()
        assert ASKED[name](model).rows == plain
        assert state() == before
        assert ASKED[name](RANDOM).rows == made
        assert state() == before


@pytest.mark.parametrize("around", ["autocast", "inference mode"])
def test_maps_and_trainings_too(around: str) -> None:
    maps = torch.rand(3, 6, 6).softmax(-1)

    def asked() -> list[Any]:
        trained = attn.reproduce.circle(train_steps=3, recurrence=5, seeds=1, width=4)
        return [attn.inspect_maps(maps, metric="attention,spectra").rows, trained.rows]

    plain = asked()
    with WITHIN[around]():
        assert asked() == plain


@pytest.mark.slow
@pytest.mark.parametrize("name", ASKED)
def test_weights_made_in_inference_mode_are_measured_and_left(name: str) -> None:
    """Tied ones too, which stay tied."""
    model = model_of("GPT2LMHeadModel")
    with torch.inference_mode():
        made = copy.deepcopy(model)
        for weight in made.parameters():
            assert weight.is_inference()
        inputs = torch.tensor([[1, 2, 3]])
    before = {each: id(weight) for each, weight in made.named_parameters(remove_duplicate=False)}
    assert ASKED[name](made).rows == ASKED[name](model).rows
    assert {each: id(weight) for each, weight in made.named_parameters(remove_duplicate=False)} == before  # fmt: skip
    assert attn.inspect_model(made, inputs=inputs).rows == attn.inspect_model(model, token_ids="1,2,3").rows  # fmt: skip


class Clamping(nn.Module):
    """Changes in place what it is given, as nothing may outside inference mode that was made in it."""

    def __init__(self) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x.clamp_(-1, 1)
        found: torch.Tensor = self.attention(x, x, x)[0]
        return found


def test_inputs_made_in_inference_mode_are_tensors_as_ever() -> None:
    with torch.inference_mode():
        assert attn.inspect_model(Clamping(), inputs=torch.randn(1, 4, 8)).rows


@pytest.mark.parametrize("name", ASKED)
def test_weights_without_numbers_are_refused_by_name(name: str) -> None:
    with torch.device("meta"):
        model = model_of("GPT2LMHeadModel")
    with pytest.raises(UsageError, match=r"transformer\.wte\.weight of this GPT2LMHeadModel is on torch's meta device"):  # fmt: skip
        ASKED[name](model)


def compiled(model: nn.Module) -> Any:
    return torch.compile(model, backend="eager")


def compiled_in_place(model: PreTrainedModel) -> nn.Module:
    model.compile(backend="eager")
    return model


WRAPPED: dict[str, Callable[[PreTrainedModel], Any]] = {
    "compiled": compiled,
    "compiled in place": compiled_in_place,
    "parallel": nn.DataParallel,
    "compiled and parallel": lambda model: nn.DataParallel(compiled(model)),
}


TAKEN = [pytest.param(name, how, marks=() if name == "inspect_model" else pytest.mark.slow) for name in ASKED for how in WRAPPED]  # fmt: skip


@pytest.mark.parametrize(("name", "how"), TAKEN)
def test_a_model_is_taken_out_of_what_it_is_wrapped_in(name: str, how: str) -> None:
    model = model_of("GPT2LMHeadModel")
    plain, found = ASKED[name](model), ASKED[name](WRAPPED[how](copy.deepcopy(model)))
    assert found.rows == plain.rows
    assert found.source["class"] == "GPT2LMHeadModel"


@pytest.mark.slow
@pytest.mark.parametrize("name", ASKED)
def test_no_code_of_a_compiler_runs(name: str) -> None:
    """Of a model that has no head: what is compiled is what is run to look at it."""
    model, compiled_graphs = model_of("BertModel"), []

    def backend(graph: Any, _: Any) -> Any:
        compiled_graphs.append(graph)
        return graph.forward

    model.compile(backend=backend)
    assert ASKED[name](model).rows
    assert not compiled_graphs
    model(torch.tensor([[1, 2, 3]]))
    assert compiled_graphs  # it is compiled as ever afterwards


def test_another_module_too() -> None:
    layer = nn.TransformerEncoderLayer(8, 2, 12, batch_first=True)
    module = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
    x = torch.randn(1, 5, 8)
    wanted = attn.inspect_model(module, inputs=x).rows
    assert attn.inspect_model(compiled(module), inputs=x).rows == wanted
    assert attn.inspect_model(nn.DataParallel(module), inputs=x).rows == wanted


class Asking(Thread):
    """Asks, and keeps what came of it."""

    def __init__(self, ask: Callable[[], Any]) -> None:
        super().__init__()
        self.ask, self.found = ask, None

    def run(self) -> None:
        try:
            self.found = self.ask()
        except Exception as error:
            self.found = error


@pytest.mark.slow
@pytest.mark.parametrize("shared", [True, False], ids=["one model", "models of their own"])
def test_questions_of_several_threads_wait_for_one_another(shared: bool) -> None:
    model = model_of("GPT2LMHeadModel").train()
    names = list(ASKED)
    wanted = {name: ASKED[name](model).rows for name in names}
    weights = {name: (weight, weight.dtype) for name, weight in model.named_parameters()}
    before, together = state(), Barrier(len(names))

    def ask(name: str, own: PreTrainedModel) -> Any:
        together.wait()
        return [ASKED[name](own).rows for _ in range(2)]

    models = [model if shared else copy.deepcopy(model) for _ in names]
    threads = [Asking(partial(ask, name, own)) for name, own in zip(names, models, strict=True)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for name, thread in zip(names, threads, strict=True):
        assert thread.found == [wanted[name]] * 2
    assert state() == before
    assert model.training
    assert all(weights[name][0] is each and weights[name][1] == each.dtype for name, each in model.named_parameters())  # fmt: skip


def test_a_second_thread_begins_when_the_first_has_its_answer() -> None:
    """By events: the second asks while the first is in the middle of its work, which then goes on."""
    model = model_of("GPT2LMHeadModel")
    inside, go_on, order = Event(), Event(), []

    def watch(*_: Any) -> None:
        if not inside.is_set():
            inside.set()
            go_on.wait()
        order.append("first")

    first = Asking(lambda: attn.inspect_model(model, random_tokens=8, progress=watch))
    second = Asking(lambda: attn.inspect_model(RANDOM, random_tokens=8, progress=lambda *_: order.append("second")))  # fmt: skip
    first.start()
    assert inside.wait(LONG)
    second.start()
    synthetic = attn.rank_collapse(layers=1, tokens=3, width=4, heads=1)  # waits for nobody
    assert synthetic.rows
    assert "second" not in order
    go_on.set()
    first.join()
    second.join()
    assert order == sorted(order)
    assert {"first", "second"} == set(order)
    assert not isinstance(first.found, Exception)
    assert not isinstance(second.found, Exception)


@pytest.mark.parametrize("inner", [RANDOM, "its own"])
def test_asking_again_from_within_an_answer_is_refused_in_one_sentence(inner: str) -> None:
    model, said = model_of("GPT2LMHeadModel"), []

    def again(*_: Any) -> None:
        for name, ask in ASKED.items():
            with pytest.raises(UsageError) as refused:
                ask(model if inner == "its own" else inner)
            said.append((name, str(refused.value)))
        said.append(("", str(len(attn.rank_collapse(layers=1, tokens=3, width=4, heads=1).rows))))

    wanted = attn.inspect_model(model, random_tokens=8).rows
    before = state()
    assert attn.inspect_model(model, random_tokens=8, progress=again).rows == wanted
    assert state() == before
    assert {text for name, text in said if name} == {
        "a question about a model is asked while this thread is answering another one, as from its `progress`: ask it when "
        "that answer is there."
    }
    assert ASKED["paths"](model).rows  # afterwards it may be asked
    assert not TURNS.lock.locked()


@pytest.mark.slow
def test_an_error_ends_the_turn() -> None:
    with pytest.raises(UsageError):
        attn.inspect_model(model_of("GPT2LMHeadModel"), random_tokens=8, layers="9")
    assert not TURNS.lock.locked()
    assert ASKED["inspect_model"](RANDOM).rows
