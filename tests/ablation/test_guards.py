"""Each guard has a block that only it stops: what is not understood is refused by name, never half switched off."""

import inspect
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from toy_blocks import WIDTH, Attention, Block, Model, model_of, some_input

from attncli.ablation import ablate_sub_blocks, recognise_block_anatomy
from attncli.errors import InputError
from attncli.networks.ablation_variants import AblationSwitches


def refusal(make: Callable[[], nn.Module], layers: int = 2) -> str:
    with pytest.raises(InputError) as caught:
        recognise_block_anatomy(model_of(make, layers), some_input())
    return str(caught.value)


def place(block: type[Block], text: str) -> str:
    """The line of a block's code that contains the text, as an error names it."""
    lines, start = inspect.getsourcelines(block)
    (number,) = [number for number, line in enumerate(lines) if text in line]
    return f"{Path(__file__).name}:{start + number}"


class Gated(Block):
    """The stream is let through as far as a state says."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(self.first(x))
        return torch.sigmoid(self.gate(x)) * x + self.mlp(self.second(x))


def test_a_gated_stream_is_no_skip_and_is_named_with_its_line() -> None:
    said, gate = refusal(Gated), place(Gated, "torch.sigmoid(")
    assert said.startswith("block 0 of layers (layers.0, Gated) cannot be ablated")
    assert f"its stream is multiplied by a gate that depends on states ({gate})" in said
    assert f"attention at {place(Gated, 'self.attention(')}" in said
    assert f"not recognised {gate}" in said


class Unmixed(Block):
    """Nothing is added at all."""

    def forward(self, x: Tensor) -> Tensor:
        self.kept = self.attention(x)
        return self.first(x)


def test_a_block_adds_something() -> None:
    assert "nothing is added to its input" in refusal(Unmixed)


class NormBetween(Block):
    """A norm of the stream after the MLP, before the attention: whose is it?"""

    def forward(self, x: Tensor) -> Tensor:
        x = self.first(x + self.mlp(x))
        return x + self.attention(x)


def test_a_norm_after_the_mlp_may_belong_to_what_comes_next() -> None:
    where = place(NormBetween, "self.mlp(x)")
    assert f"a norm follows {where} that may belong to what comes next" in refusal(NormBetween)


class Inseparable(Block):
    """Attention and MLP in one branch: h = attention(x), x + h + mlp(h)."""

    def forward(self, x: Tensor) -> Tensor:
        h = self.attention(self.first(x))
        return x + (h + self.mlp(h) + torch.tanh(h))


def test_an_mlp_of_the_attention_has_no_skip_of_its_own() -> None:
    where = place(Inseparable, "x + (h")
    assert f"its MLP is part of attention at {where}, with no skip of its own" in refusal(
        Inseparable
    )


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
    assert "lets its input pass outside the recognised additions" in refusal(Leak)


class Watched(Block):
    """Code that does something else when it is watched."""

    def forward(self, x: Tensor) -> Tensor:
        f = self.attention(self.first(x))
        x = x + (1.001 * f if torch._C._is_torch_function_mode_enabled() else f)
        return x + self.mlp(self.second(x))


def test_tracking_must_not_change_the_output() -> None:
    assert "gives another output when its tensors are followed" in refusal(Watched)


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
        recognise_block_anatomy(built, some_input())
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
        recognise_block_anatomy(model_of(Block).train(), some_input())


class TwoWays(Block):
    """Takes another way for long texts."""

    def forward(self, x: Tensor) -> Tensor:
        if x.shape[1] > 5:
            return self.second(super().forward(x))
        return super().forward(x)


def test_another_path_than_the_examined_one_is_refused() -> None:
    model = model_of(TwoWays)
    anatomy = recognise_block_anatomy(model, some_input(tokens=5))
    with (
        ablate_sub_blocks(model, anatomy, AblationSwitches(skip=False)),
        pytest.raises(InputError, match="takes another path than when it was examined"),
    ):
        model(**some_input(tokens=6))


def test_all_is_as_before_after_an_error() -> None:
    model, inputs = model_of(Block), some_input()
    anatomy, before = recognise_block_anatomy(model, inputs), model(**inputs)
    with (
        pytest.raises(RuntimeError),
        ablate_sub_blocks(model, anatomy, AblationSwitches(skip=False)),
    ):
        model(inputs["x"][..., :2])
    model.layers[1].mlp = None
    with pytest.raises(TypeError), ablate_sub_blocks(model, anatomy, AblationSwitches(norms=False)):
        model(**inputs)
    assert not torch._C._is_torch_function_mode_enabled()
    assert not any("forward" in vars(module) for module in model.modules())
    assert before.shape == inputs["x"].shape


def test_a_model_as_it_is_runs_once_for_all_checks_that_compare_with_it() -> None:
    """The probe, the tracked pass, the plain one, and two without additions."""
    model, passes = model_of(Block, 2), list[object]()
    model.register_forward_pre_hook(lambda *given: passes.append(given))
    recognise_block_anatomy(model, some_input())
    assert len(passes) == 5
