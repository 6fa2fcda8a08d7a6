"""The maps that plots draw, against the dense computation."""

import itertools

import numpy as np
import pytest

from attncli.analysis.fits import target_and_fitted_map_pictures
from attncli.analysis.fits.target_and_fitted_map_pictures import build_map_picture_of_fit
from attncli.fits import FitRequest, FittedModule
from attncli.fits import _verify_fit as blocks
from attncli.fits._fit_files import ModuleArrays, SavedFit
from attncli.fits._width_search import run_fitting_method
from attncli.patterns import build_pattern


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("cells", [30, 7, 192])
def test_cells_are_the_largest_of_what_they_cover(
    causal: bool, cells: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(target_and_fitted_map_pictures, "CELLS", cells)
    monkeypatch.setattr(blocks, "BLOCK", 100)  # rows of one cell fall into several blocks
    target = build_pattern("random:k=3,weights=dirichlet", 30, np.random.default_rng(0), causal)
    fit = run_fitting_method("learned", target, FitRequest(d=5, causal=causal, effort=1), 0)
    assert isinstance(fit, FittedModule)
    stored = ModuleArrays(fit.w_q, fit.w_k, fit.x, "float64", causal)
    logits = fit.x[:, :5] @ fit.x[:, 5:].T + (np.triu(np.full((30, 30), -np.inf), 1) if causal else 0)  # fmt: skip
    made = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    dense = {"target": target.toarray(), "achieved": made}
    dense["|error|"] = np.abs(made - dense["target"])
    edges = np.linspace(0, 30, min(cells, 30) + 1).astype(int)
    panels = build_map_picture_of_fit(SavedFit("p", "learned", stored, target)).panels
    assert list(panels) == list(dense)
    for name, full in dense.items():
        coarse = [
            [full[a:b, c:d].max() for c, d in itertools.pairwise(edges)]
            for a, b in itertools.pairwise(edges)
        ]
        np.testing.assert_allclose(panels[name], coarse, atol=1e-12)
