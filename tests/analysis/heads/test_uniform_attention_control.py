"""Uniform attention over the keys that a query sees, measured from spans: as on the whole map, whatever the strips."""

import pytest
import torch
from torch import Tensor

import attncli as attn
from attncli.analysis.heads.forward_passes import uniform_attention_control
from attncli.analysis.heads.forward_passes.uniform_attention_control import (
    SCATTERED,
    UniformAttentionControl,
    VisibleSpans,
)
from attncli.capture import Strip
from attncli.metrics.attention import ATTENTION
from attncli.metrics.attention._metric_accumulator import Values, measure_maps

torch.set_num_threads(1)

NAMES = tuple(
    name
    for name in ATTENTION.names()
    if ATTENTION.declaration_of_entry(name).of not in ("outputs", "gates", "sides")
)
N, PERIOD = 24, 12


def window(width: int) -> Tensor:
    back = torch.arange(N)[:, None] - torch.arange(N)
    return (back >= 0) & (back < width)


def spans_of(visible: Tensor, rows: int = 5) -> VisibleSpans:
    """From strips that leave out the keys which none of their rows sees; visible: [batch, query, key]."""
    spans = VisibleSpans(*visible.shape[1:])
    for start in range(0, visible.shape[1], rows):
        part = visible[:, None, start : start + rows]
        seen = part.flatten(0, 2).any(dim=0).nonzero()
        part = part[..., int(seen[0]) : int(seen[-1]) + 1]
        spans.accumulate_map_rows(
            Strip(part.double(), start, int(seen[0]), *visible.shape[1:], part)
        )
    return spans


def null_of(
    visible: Tensor, null: UniformAttentionControl | None = None, same: bool = True
) -> Values:
    return (null or UniformAttentionControl()).measure_uniform_attention(
        spans_of(visible), NAMES, same, PERIOD
    )


@pytest.mark.parametrize("elements", [1, 100, 2**18])
@pytest.mark.parametrize("width", [N, 15, 4])
def test_as_on_the_whole_map(elements: int, width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(uniform_attention_control, "ELEMENTS", elements)
    visible = window(width)
    weights = visible / visible.sum(-1, keepdim=True, dtype=torch.float64)
    expected = measure_maps(weights[None, None], NAMES, visible=visible[None, None], period=PERIOD)
    found = null_of(visible[None])
    for name in NAMES:
        if isinstance(expected[name], str):
            assert found[name] == expected[name], name
        else:
            assert torch.allclose(found[name], expected[name], rtol=1e-5, atol=1e-6), name  # type: ignore[arg-type]


def test_there_is_none_where_visible_keys_do_not_lie_side_by_side() -> None:
    holes = window(N)
    holes[9, 3] = False
    assert set(null_of(holes[None]).values()) == {SCATTERED}
    assert set(null_of(torch.stack([window(N), window(4)])).values()) == {SCATTERED}


def test_attention_over_other_tokens_has_a_null_of_its_own() -> None:
    """Also where as many keys are seen as in the attention before."""
    null = UniformAttentionControl()
    assert isinstance(null_of(window(N)[None], null)["distance"], Tensor)
    assert null_of(window(N)[None], null, same=False)["distance"] == "n/a: queries and keys are not the same tokens"  # fmt: skip


def test_in_float64_it_is_exact() -> None:
    """However the observer of a forward pass is shielded from the mode that keeps a model in float64."""
    report = attn.inspect_model(
        "random:gpt2?layers=2&width=8&heads=1",
        dtype="float64",
        random_tokens=7,
        metric=["entropy_normalised"],
    )
    (control,) = {
        dict(row.keys)["uniform"] for row in report.rows if row.metric == "entropy_normalised"
    }
    assert control == pytest.approx(1.0, abs=1e-13, rel=0)
