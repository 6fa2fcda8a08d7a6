"""Maps that are mixed between their softmax and the values are not what the softmax gave: refused by name."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

import attncli as attn
from attncli.errors import InputError

HEADS, WIDTH = 3, 12

Mix = Callable[["MixedAttention", Tensor], Tensor]

MIXES: dict[str, Mix] = {
    "over heads, by a weight": lambda own, a: torch.einsum("bhij,hg->bgij", a, own.heads),
    "over heads, by a constant": lambda own, a: torch.einsum(
        "bhij,hg->bgij", a, torch.eye(HEADS) + 0.1
    ),
    "over heads, in another order": lambda own, a: (a.permute(0, 2, 3, 1) @ own.heads).permute(
        0, 3, 1, 2
    ),
    "over keys, by a weight": lambda own, a: a @ own.keys[: a.shape[-1], : a.shape[-1]],
    "over keys, by a constant": lambda own, a: a @ torch.eye(a.shape[-1]).roll(1, 0),
    "twice": lambda own, a: a @ a,
}


class MixedAttention(nn.Module):
    def __init__(self, mix: Mix) -> None:
        super().__init__()
        self.mix = mix
        self.sides, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.heads, self.keys = (nn.Parameter(torch.rand(n, n)) for n in (HEADS, 32))

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.sides(x).unflatten(-1, (3, HEADS, -1)).permute(2, 0, 3, 1, 4)
        found: Tensor = self.mix(self, (q @ k.mT).softmax(-1)) @ v
        return x + self.out(found.transpose(1, 2).flatten(2))


@pytest.mark.parametrize("mix", MIXES)
@pytest.mark.parametrize("tokens", [WIDTH // HEADS, 9])
def test_a_map_that_is_mixed_after_its_softmax_is_refused(mix: str, tokens: int) -> None:
    torch.manual_seed(0)
    module = nn.Sequential(MixedAttention(MIXES[mix]), MixedAttention(MIXES[mix])).eval()
    with pytest.raises(InputError, match="mixes its map after the softmax"):
        attn.inspect_model(module, inputs=torch.randn(1, tokens, WIDTH), metric="entropy")


@pytest.mark.parametrize("tokens", [1, 2, HEADS, WIDTH // HEADS, 9, WIDTH])
def test_outputs_that_have_a_maps_shape_by_chance_are_none(tokens: int) -> None:
    """As many tokens as a head, the model or their number is wide."""
    torch.manual_seed(0)
    module = nn.Sequential(*(MixedAttention(lambda own, a: a) for _ in range(2))).eval()
    x = torch.randn(1, tokens, WIDTH)
    report = attn.inspect_model(module, inputs=x, metric="entropy")
    q, k, _ = module[0].sides(x).unflatten(-1, (3, HEADS, -1)).permute(2, 0, 3, 1, 4)
    weights = (q @ k.mT).softmax(-1)
    expected = -(weights * weights.log()).sum(-1).mean(-1)[0]
    found = [r.value for r in report.rows if r.metric == "entropy" and r.layer == 0 and r.head is not None and "null" not in r.keys]  # fmt: skip
    assert found[:HEADS] == pytest.approx(expected.tolist(), abs=1e-6)
