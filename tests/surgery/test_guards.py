"""Each guard has a block that only it stops: what is not understood is refused by name, never half switched off."""

import inspect
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from toy_blocks import WIDTH, Attention, Block, Mlp, Model, model_of, some_input

from attncli.errors import InputError
from attncli.networks.variants import Switches
from attncli.surgery import examine, switched


def refusal(make: Callable[[], nn.Module], layers: int = 2) -> str:
    with pytest.raises(InputError) as caught:
        examine(model_of(make, layers), some_input())
    return str(caught.value)


def place(block: type[Block], text: str) -> str:
    """The line of a block's code that contains the text, as an error names it."""
    lines, start = inspect.getsourcelines(block)
    (number,) = [number for number, line in enumerate(lines) if text in line]
    return f"{Path(__file__).name}:{start + number}"


class LearnedMix(Block):
    def __init__(self) -> None:
        super().__init__()
        self.gain = nn.Parameter(torch.ones(WIDTH))

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(self.first(x))
        return self.gain * x + self.mlp(self.second(x))


def test_a_learned_mix_is_no_skip_and_is_named_with_its_line() -> None:
    said = refusal(LearnedMix)
    assert said.startswith("block 0 of layers (layers.0, LearnedMix) cannot be ablated")
    assert f"attention at {place(LearnedMix, 'self.attention(')}" in said
    assert f"not recognised {place(LearnedMix, 'self.gain * x')}" in said


class TwoMlps(Block):
    """A conformer's two half steps."""

    def __init__(self) -> None:
        super().__init__()
        self.other = Mlp()

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x + 0.5 * self.other(x))


class NoMlp(Block):
    def forward(self, x: Tensor) -> Tensor:
        return x + self.attention(self.first(x))


@pytest.mark.parametrize("block", [TwoMlps, NoMlp])
def test_a_block_has_one_mlp(block: type[Block]) -> None:
    assert "one addition of an MLP was expected: recognised attention at" in refusal(block)


class Inseparable(Block):
    """Attention and MLP in one branch: h = attention(x), x + h + mlp(h)."""

    def forward(self, x: Tensor) -> Tensor:
        h = self.attention(self.first(x))
        return x + (h + self.mlp(h) + torch.tanh(h))


def test_an_mlp_of_the_attention_has_no_skip_of_its_own() -> None:
    assert "one addition of an MLP was expected" in refusal(Inseparable)


class UsedTwice(Block):
    """The attention's branch is added before and after the MLP."""

    def forward(self, x: Tensor) -> Tensor:
        branch = self.attention(self.first(x))
        x = x + branch
        return x + self.mlp(self.second(x)) + branch


class Unused(Block):
    """A second attention whose result goes elsewhere."""

    def __init__(self) -> None:
        super().__init__()
        self.other = Attention()

    def forward(self, x: Tensor) -> Tensor:
        self.kept = self.other(x)
        return super().forward(x)


@pytest.mark.parametrize("block", [UsedTwice, Unused])
def test_every_attention_call_reaches_one_addition(block: type[Block]) -> None:
    assert "attention" in refusal(block)


class Elsewhere(Block):
    """An addition that the output does not come through."""

    def forward(self, x: Tensor) -> Tensor:
        self.kept = x + self.mlp(x)
        return super().forward(x)


def test_every_addition_is_on_the_way_to_the_output() -> None:
    where = place(Elsewhere, "self.kept")
    assert f"mlp at {where} is not on the way to the output" in refusal(Elsewhere)


class Leak(Block):
    """The input gets past the additions through memory that torch does not see."""

    def forward(self, x: Tensor) -> Tensor:
        y = super().forward(x)
        y.numpy()[...] += 0.01 * x.numpy()
        return y


def test_the_zero_test_finds_what_passes_beside_the_additions() -> None:
    assert "lets its input pass beside the recognised additions" in refusal(Leak)


class Watched(Block):
    """Code that does something else when it is watched."""

    def forward(self, x: Tensor) -> Tensor:
        f = self.attention(self.first(x))
        x = x + (1.001 * f if torch._C._is_torch_function_mode_enabled() else f)
        return x + self.mlp(self.second(x))


def test_tracking_must_not_change_the_output() -> None:
    assert "gives another output when its tensors are followed" in refusal(Watched)


class Recurrent(nn.Module):
    """A layer without attention."""

    def __init__(self) -> None:
        super().__init__()
        self.mlp = Mlp()

    def forward(self, x: Tensor) -> Tensor:
        return x + self.mlp(x)


def test_a_hybrid_is_refused() -> None:
    kinds = iter([Block, Recurrent, Block])
    said = refusal(lambda: next(kinds)(), layers=3)
    assert said.startswith("block 1 of layers (layers.1, Recurrent) has no softmax attention")


class Borrowed(Model):
    """Every block is also given the first state, as value-residual and initial-state models do."""

    def forward(self, x: Tensor) -> Tensor:
        x = self.embed(x)
        start = 1.0 * x
        for layer in self.layers:
            start = x if layer is self.layers[0] else start
            x = layer(x, start)
        return x


class Mixing(Block):
    def forward(self, x: Tensor, start: Tensor) -> Tensor:  # type: ignore[override]
        x = x + self.attention(self.first(x) + start)
        return x + self.mlp(self.second(x))


def test_more_of_earlier_states_is_refused() -> None:
    built = Borrowed([Mixing(), Mixing()]).double().eval().requires_grad_(False)
    with pytest.raises(InputError) as caught:
        examine(built, some_input())
    reason = "block 1 of layers (layers.1, Mixing) is given more of earlier states"
    assert str(caught.value).startswith(reason)


class NormOfAMix(Block):
    """A hyper-connection in small: the norm is given something made of the stream."""

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(self.first(x * torch.sigmoid(x)))
        return x + self.mlp(self.second(x))


def test_a_norm_is_of_the_stream_or_inside_a_branch() -> None:
    assert "the norm layers.0.first is fed by neither the stream" in refusal(NormOfAMix)


class Standardised(nn.Module):
    """A norm under another name."""

    def forward(self, x: Tensor) -> Tensor:
        return (x - x.mean(-1, keepdim=True)) / x.std(-1, keepdim=True)


class Nameless(Block):
    def __init__(self) -> None:
        super().__init__()
        self.second = Standardised()


def test_a_norm_that_is_not_called_one_is_refused() -> None:
    assert refusal(Nameless).startswith("layers.0.second (Standardised) gives the same")


class ConditionalNorm(nn.Module):
    def forward(self, x: Tensor, condition: Tensor) -> Tensor:
        return x / x.std(-1, keepdim=True) * condition


class Conditioned(Block):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.linear = ConditionalNorm(), nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(self.norm(x, self.linear(x)))
        return x + self.mlp(self.second(x))


def test_a_norm_with_a_condition_is_refused() -> None:
    assert "the norm layers.0.norm is fed by neither" in refusal(Conditioned)


def test_training_mode_is_refused() -> None:
    with pytest.raises(InputError, match="training mode"):
        examine(model_of(Block).train(), some_input())


class TwoWays(Block):
    """Takes another way for long texts."""

    def forward(self, x: Tensor) -> Tensor:
        if x.shape[1] > 5:
            return self.second(super().forward(x))
        return super().forward(x)


def test_another_path_than_the_examined_one_is_refused() -> None:
    model = model_of(TwoWays)
    anatomy = examine(model, some_input(tokens=5))
    with (
        switched(model, anatomy, Switches(skip=False)),
        pytest.raises(InputError, match="takes another path than when it was examined"),
    ):
        model(**some_input(tokens=6))


def test_all_is_as_before_after_an_error() -> None:
    model, inputs = model_of(Block), some_input()
    anatomy, before = examine(model, inputs), model(**inputs)
    with pytest.raises(RuntimeError), switched(model, anatomy, Switches(skip=False)):
        model(inputs["x"][..., :2])
    model.layers[1].mlp = None
    with pytest.raises(TypeError), switched(model, anatomy, Switches(norms=False)):
        model(**inputs)
    assert not torch._C._is_torch_function_mode_enabled()
    assert not any("forward" in vars(module) for module in model.modules())
    assert before.shape == inputs["x"].shape
