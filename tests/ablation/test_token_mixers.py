"""What mixes tokens without a softmax is found by trying and treated as attention is; several MLPs go off together."""

import pytest
import torch
from torch import Tensor, nn
from toy_blocks import WIDTH, Block, Mlp, model_of, some_input

from attncli.ablation import ablate_sub_blocks, recognise_block_anatomy
from attncli.errors import InputError, NoAttention
from attncli.networks.ablation_variants import AblationSwitches


class RunningMean(nn.Module):
    """Every token and those before it."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        counts = torch.arange(1, x.shape[1] + 1, dtype=x.dtype)
        out: Tensor = self.linear(x.cumsum(1) / counts[:, None])
        return out


class Shifted(Mlp):
    """An MLP of the token before: RWKV's second branch."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(nn.functional.pad(x, (0, 0, 1, -1)))


class Recurrent(Block):
    def __init__(self) -> None:
        super().__init__()
        self.attention = RunningMean()  # type: ignore[assignment]


class MixerAlone(Recurrent):
    def forward(self, x: Tensor) -> Tensor:
        return x + self.attention(self.first(x))


class MlpAlone(Block):
    def forward(self, x: Tensor) -> Tensor:
        return x + self.mlp(self.second(x))


class AttentionAlone(Block):
    def forward(self, x: Tensor) -> Tensor:
        return x + self.attention(self.first(x))


class Beside(Block):
    """Attention and a recurrence are added to each other (Falcon-H1)."""

    def __init__(self) -> None:
        super().__init__()
        self.other = RunningMean()

    def forward(self, x: Tensor) -> Tensor:
        y = self.first(x)
        x = x + (self.attention(y) + self.other(y))
        return x + self.mlp(self.second(x))


class Conformer(Block):
    """Half an MLP, attention, a convolution, half an MLP, and a norm of it all."""

    def __init__(self) -> None:
        super().__init__()
        self.before, self.mixer, self.last = Mlp(), RunningMean(), nn.LayerNorm(WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        x = x + 0.5 * self.before(self.second(x))
        x = x + self.attention(self.first(x))
        x = x + self.mixer(self.first(x))
        return self.last(x + 0.5 * self.mlp(self.second(x)))


class TwoPostNormMlps(Block):
    """A norm after each of three additions (X-MOD)."""

    def __init__(self) -> None:
        super().__init__()
        self.other, self.third = Mlp(), nn.LayerNorm(WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        x = self.first(x + self.attention(x))
        x = self.second(x + self.mlp(x))
        return self.third(x + self.other(x))


class ShiftedMlp(Block):
    def __init__(self) -> None:
        super().__init__()
        self.mlp = Shifted()


class ShiftedMlpOfARecurrence(Recurrent):
    def __init__(self) -> None:
        super().__init__()
        self.mlp = Shifted()


def kinds(*blocks: type[nn.Module]) -> list[tuple[str, ...]]:
    """What is added in each layer, in order; norms of the stream among them."""
    makes = iter(blocks)
    found = recognise_block_anatomy(
        model_of(lambda: next(makes)(), len(blocks)), some_input(tokens=7)
    ).paths
    return [path[1:] for _, path in sorted(found.items())]


def test_what_mixes_tokens_is_told_from_what_does_not() -> None:
    assert kinds(Block, Recurrent, MlpAlone, MixerAlone, AttentionAlone) == [
        ("attention", "mlp"),
        ("mixer", "mlp"),
        ("mlp",),
        ("mixer",),
        ("attention",),
    ]
    assert kinds(Beside) == [("attention", "mlp")]
    assert kinds(Conformer) == [("mlp", "attention", "mixer", "mlp", "norm")]
    assert kinds(TwoPostNormMlps) == [("attention", "norm", "mlp", "norm", "mlp", "norm")]


def test_an_mlp_with_a_shift_in_it_is_an_mlp() -> None:
    """Where it is the one branch beside attention, or the second of two that mix."""
    assert kinds(ShiftedMlp) == [("attention", "mlp")]
    assert kinds(Block, ShiftedMlpOfARecurrence) == [("attention", "mlp"), ("mixer", "mlp")]
    assert kinds(ShiftedMlp, Recurrent)[0] == ("attention", "mlp")


def output(block: type[nn.Module], switches: AblationSwitches) -> tuple[nn.Module, Tensor, Tensor]:
    """One such block behind a plain one, what it was given and what it gave."""
    makes, seen = iter([Block, block]), []
    model, inputs = model_of(lambda: next(makes)(), 2), some_input(tokens=7)
    anatomy = recognise_block_anatomy(model, inputs)
    handle = model.layers[1].register_forward_pre_hook(lambda _, args: seen.append(args[0].clone()))
    with ablate_sub_blocks(model, anatomy, switches):
        found = model(**inputs)
    handle.remove()
    return model.layers[1], seen[0], found


@pytest.mark.parametrize("skip", [True, False])
@pytest.mark.parametrize("mlp", [True, False])
def test_switched_by_hand(skip: bool, mlp: bool) -> None:
    switches = AblationSwitches(skip=skip, mlp=mlp, mlp_skip=mlp)

    def plus(x: Tensor, branch: Tensor) -> Tensor:
        return x + branch if skip else branch

    b, x, found = output(Recurrent, switches)
    x = plus(x, b.attention(b.first(x)))
    expected = x + b.mlp(b.second(x)) if mlp else x
    torch.testing.assert_close(found, expected, rtol=1e-13, atol=1e-13)

    b, x, found = output(Beside, switches)
    x = plus(x, b.attention(b.first(x)) + b.other(b.first(x)))
    expected = x + b.mlp(b.second(x)) if mlp else x
    torch.testing.assert_close(found, expected, rtol=1e-13, atol=1e-13)

    b, x, found = output(Conformer, switches)
    x = x + 0.5 * b.before(b.second(x)) if mlp else x
    x = plus(x, b.attention(b.first(x)))
    x = plus(x, b.mixer(b.first(x)))
    expected = b.last(x + 0.5 * b.mlp(b.second(x)) if mlp else x)  # the last norm is no MLP's
    torch.testing.assert_close(found, expected, rtol=1e-13, atol=1e-13)

    b, x, found = output(TwoPostNormMlps, switches)
    expected = b.first(plus(x, b.attention(x)))
    if mlp:
        expected = b.second(expected + b.mlp(expected))
        expected = b.third(expected + b.other(expected))
    torch.testing.assert_close(found, expected, rtol=1e-13, atol=1e-13)


def notes(*blocks: type[nn.Module]) -> str:
    makes = iter(blocks)
    model = model_of(lambda: next(makes)(), len(blocks))
    return " ".join(recognise_block_anatomy(model, some_input(tokens=7)).notes)


def test_what_stays_on_is_named_with_its_layers() -> None:
    said = notes(Recurrent, Block, Recurrent, Recurrent, MlpAlone, AttentionAlone)
    assert "their skip is switched with attention's: running means in layers 0, 2-3." in said
    assert "no MLP is added in layer 5." in said
    assert "nothing but an MLP is in layer 4: without it they change nothing." in said
    assert "running means in layers 0-1" in notes(Beside, Beside)
    assert "a block has several MLPs" in notes(Conformer)
    assert "layer 1: what is switched off as the MLP mixes tokens too" in notes(Block, ShiftedMlpOfARecurrence)  # fmt: skip
    assert notes(Block) == ""


class Gains(Block):
    def __init__(self) -> None:
        super().__init__()
        self.gain, self.shift = (nn.Parameter(torch.ones(WIDTH)) for _ in range(2))

    def forward(self, x: Tensor) -> Tensor:
        x = (x + self.shift) * self.gain + self.attention(self.first(x))
        return self.gain * x + self.mlp(self.second(x))


def test_learned_gains_and_shifts_stay_where_a_branch_goes() -> None:
    b, x, found = output(Gains, AblationSwitches(mlp=False, mlp_skip=False))
    x = (x + b.shift) * b.gain + b.attention(b.first(x))
    torch.testing.assert_close(found, b.gain * x, rtol=1e-13, atol=1e-13)
    assert "the stream has learned gains or shifts" in notes(Gains)


class ThreeThatMix(Recurrent):
    def __init__(self) -> None:
        super().__init__()
        self.mlp, self.other = Shifted(), Shifted()

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.other(x)
        return super().forward(x)


class NormOverTokens(nn.Module):
    """Every token is told of every other one."""

    def forward(self, x: Tensor) -> Tensor:
        return x - x.mean(1, keepdim=True)


class SpreadStream(Recurrent):
    def __init__(self) -> None:
        super().__init__()
        self.norm = NormOverTokens()

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(self.norm(x))


@pytest.mark.parametrize(
    ("block", "reason"),
    [
        (ThreeThatMix, "which of the branches that mix tokens is its MLP is not known"),
        (SpreadStream, "whether what is added at .* mixes tokens cannot be found out"),
    ],
)
def test_what_cannot_be_told_is_refused(block: type[nn.Module], reason: str) -> None:
    makes = iter([Block, block])
    with pytest.raises(InputError, match=reason):
        recognise_block_anatomy(model_of(lambda: next(makes)(), 2), some_input(tokens=7))


class CrossMixing(Block):
    """Its second branch takes what it likes of other states, by a softmax of weights: deformable attention."""

    def __init__(self) -> None:
        super().__init__()
        self.choice, self.value = nn.Linear(WIDTH, 4), nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor, memory: Tensor) -> Tensor:  # type: ignore[override]
        x = x + self.attention(self.first(x))
        x = x + torch.softmax(self.choice(x), -1) @ self.value(memory)
        return x + self.mlp(self.second(x))


class WithMemory(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Linear(WIDTH, WIDTH)
        self.layers = nn.ModuleList(CrossMixing() for _ in range(2))

    def forward(self, x: Tensor) -> Tensor:
        memory = self.embed(x[:, :4])
        for layer in self.layers:
            x = layer(x, memory)
        return x


def test_what_takes_from_other_states_mixes_tokens() -> None:
    torch.manual_seed(0)
    model = WithMemory().double().eval().requires_grad_(False)
    found = recognise_block_anatomy(model, some_input(tokens=7)).paths
    assert set(found.values()) == {("input", "attention", "mixer", "mlp")}


def test_without_any_softmax() -> None:
    """Nothing but recurrences; but something must mix tokens."""
    assert kinds(Recurrent, Recurrent) == [("mixer", "mlp")] * 2
    assert "no layer has an MLP of its own" in notes(MixerAlone, MixerAlone)
    with pytest.raises(NoAttention, match="nothing in the blocks of layers mixes tokens"):
        kinds(MlpAlone, MlpAlone)


class InPlace(Recurrent):
    """A sum is changed in place while what it was made of is still read."""

    def __init__(self) -> None:
        super().__init__()
        self.extra = nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        y = x + self.mlp(self.second(x))
        y *= 0.5
        return y + self.attention(self.first(y) + self.extra(x))


def test_a_dropped_term_is_a_tensor_of_its_own() -> None:
    b, x, found = output(InPlace, AblationSwitches(mlp=False, mlp_skip=False))
    half = 0.5 * x
    expected = half + b.attention(b.first(half) + b.extra(x))
    torch.testing.assert_close(found, expected, rtol=1e-13, atol=1e-13)


class TwoKindsOfTokens(Block):
    """One attention for all; then an MLP for the first three tokens and another one for the rest (InstructBLIP)."""

    def __init__(self) -> None:
        super().__init__()
        self.other = Mlp()

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(self.first(x))
        queries, text = x[:, :3], x[:, 3:]
        queries = queries + self.mlp(self.second(queries))
        return torch.cat([queries, text + self.other(self.second(text))], 1)


def test_tokens_may_go_different_ways() -> None:
    assert kinds(TwoKindsOfTokens) == [("attention", "mlp", "input", "attention", "mlp")]
    assert "several MLPs" not in notes(TwoKindsOfTokens)
    b, x, found = output(TwoKindsOfTokens, AblationSwitches(mlp=False, mlp_skip=False))
    torch.testing.assert_close(found, x + b.attention(b.first(x)), rtol=1e-13, atol=1e-13)
    b, x, found = output(TwoKindsOfTokens, AblationSwitches(mlp_skip=False))
    x = b.second(x + b.attention(b.first(x)))
    expected = torch.cat([b.mlp(x[:, :3]), b.other(x[:, 3:])], 1)
    torch.testing.assert_close(found, expected, rtol=1e-13, atol=1e-13)
