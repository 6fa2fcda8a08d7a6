"""Small transformers whose every line is at hand, to try what model code might do."""

import math
from collections.abc import Callable, Iterable

import torch
from torch import Tensor, nn

WIDTH = 6

Add = Callable[[Tensor, Tensor], Tensor]


class Attention(nn.Module):
    """One head, written out."""

    def __init__(self) -> None:
        super().__init__()
        self.maps = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(4))

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (linear(x) for linear in self.maps[:3])
        weights = torch.softmax(q @ k.transpose(-1, -2) / math.sqrt(WIDTH), dim=-1)
        out: Tensor = self.maps[3](weights @ v)
        return out


class Mlp(nn.Sequential):
    def __init__(self) -> None:
        super().__init__(nn.Linear(WIDTH, 2 * WIDTH), nn.GELU(), nn.Linear(2 * WIDTH, WIDTH))


class Block(nn.Module):
    """A pre-norm block; tests override what they need otherwise."""

    def __init__(self, add: Add = torch.add) -> None:
        super().__init__()
        self.attention, self.mlp = Attention(), Mlp()
        self.first, self.second = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.add = add

    def forward(self, x: Tensor) -> Tensor:
        x = self.add(x, self.attention(self.first(x)))
        return self.add(x, self.mlp(self.second(x)))


class Model(nn.Module):
    """A stack of blocks under an embedding."""

    def __init__(self, blocks: Iterable[nn.Module]) -> None:
        super().__init__()
        self.embed = nn.Linear(WIDTH, WIDTH)
        self.layers = nn.ModuleList(blocks)

    def forward(self, x: Tensor) -> Tensor:
        x = self.embed(x)
        for layer in self.layers:
            x = layer(x)
        return x


def model_of(make: Callable[[], nn.Module], layers: int = 2) -> Model:
    """Seeded, in float64, for inference."""
    torch.manual_seed(0)
    model = Model(make() for _ in range(layers)).double().eval().requires_grad_(False)
    for parameter in model.parameters():
        parameter += 0.3 * torch.randn_like(parameter)
    return model


def some_input(batch: int = 1, tokens: int = 5) -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(1)
    return {"x": torch.randn(batch, tokens, WIDTH, generator=generator, dtype=torch.float64)}
