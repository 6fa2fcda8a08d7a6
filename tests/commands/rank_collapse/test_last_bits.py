"""Exact residuals in models that make rounding large: what the last bits decide is null, and all else stays what it was."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache, partial

import pytest
import torch
from torch import nn

import attncli
from attncli.analysis import load_and_verify_model
from attncli.analysis.load_and_verify_model import Requirement
from attncli.errors import AttnError
from attncli.models.random.random_models import build_model
from attncli.records import Row

CHAOTIC = "hrm_text"
"""128 blocks run one after another; without the skips of their MLPs each makes differences some 1.3 times larger."""


@contextmanager
def last_bits_moved(model: nn.Module) -> Iterator[None]:
    """Every weight by a rounding up or down."""
    chance = torch.Generator().manual_seed(0)
    before = [parameter.detach().clone() for parameter in model.parameters()]
    with torch.no_grad():
        for parameter in model.parameters():
            signs = torch.randint(0, 2, parameter.shape, generator=chance).to(parameter) * 2 - 1
            parameter.mul_(1 + torch.finfo(parameter.dtype).eps * signs)
    try:
        yield
    finally:
        with torch.no_grad():
            for parameter, value in zip(model.parameters(), before, strict=True):
                parameter.copy_(value)


def residuals(model: nn.Module, variant: str) -> dict[tuple[object, ...], Row]:
    report = attncli.rank_collapse(model, exact=True, variants=variant, token_ids="5,9,2,7,1,3,8,4")
    return {
        (row.keys.get("stack"), row.layer): row
        for row in report.rows
        if row.metric == "log10_residual"
    }


@pytest.mark.slow
def test_what_the_last_bits_of_weights_decide_is_null(monkeypatch: pytest.MonkeyPatch) -> None:
    """The oracle: the same network with weights that differ from its own by rounding."""
    model = build_model(CHAOTIC, {"tiny": ""}, seed=0, dtype=torch.float64)
    prepare = partial(load_and_verify_model.prepare_model, model, None, Requirement.ANATOMY)
    prepared = cache(prepare)
    monkeypatch.setattr(load_and_verify_model, "prepare_model", lambda *_: prepared())
    found = residuals(model, "SAN+MLP-noskip")
    with last_bits_moved(model):
        others = residuals(model, "SAN+MLP-noskip")
    unknown = [row for row in found.values() if row.value is None]
    assert len(unknown) > 10
    assert all("not known to 1 % in exact arithmetic: " in (row.note or "") for row in unknown)
    moved = {
        place: (abs(row.value - others[place].value), row.keys["uncertainty"])
        for place, row in found.items()
        if row.value is not None and others[place].value is not None
    }
    assert len(moved) > 100
    assert max(by for _, by in moved.values()) > 1e-3  # up to the third digit
    assert all(apart < 4.0 * by + 1e-13 for apart, by in moved.values())
    assert sum(apart > by / 30.0 for apart, by in moved.values()) > len(moved) / 2


@pytest.mark.slow
def test_where_skips_stand_nothing_is_run_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    from attncli.tensor_subclasses.residual_split.split_tensor_forward import LastBitPerturbation

    model = build_model("bert", {"tiny": ""}, seed=0, dtype=torch.float64)
    before = residuals(model, "all")
    monkeypatch.delattr(LastBitPerturbation, "__call__")
    residuals(model, "paper")
    with pytest.raises(AttnError, match="'LastBitPerturbation' object is not callable"):
        residuals(model, "SAN+MLP-noskip")
    assert all(row.value is not None for row in before.values())


@pytest.mark.slow
def test_uncertainties_are_told_where_blocks_may_make_rounding_large() -> None:
    model = build_model("bert", {"tiny": "", "layers": "6"}, seed=0, dtype=torch.float64)
    found = residuals(model, "SAN+MLP-noskip")
    told = [row.keys["uncertainty"] for row in found.values()]
    assert told == sorted(told)
    assert 0.0 < told[-1] < 1e-10
