import numpy as np

from attncli.maps._map_rows import Map, normalise_rows, require_number_in_range


def dirichlet(
    tokens: int, rng: np.random.Generator, *, concentration: float = 0.1, causal: bool = False
) -> Map:
    """Rows drawn from a symmetric Dirichlet distribution over the visible keys: small concentrations are sparse."""
    require_number_in_range("concentration", concentration, 1e-3)
    # Gamma(a) = Gamma(a + 1) U^(1/a), summed in logs: a tiny concentration would underflow.
    draws = rng.standard_gamma(concentration + 1.0, (tokens, tokens))
    logs = np.log(draws) + np.log(rng.random((tokens, tokens))) / concentration
    visible = np.tri(tokens, dtype=bool) if causal else np.ones((tokens, tokens), dtype=bool)
    logs = np.where(visible, logs, -np.inf)
    return normalise_rows(np.exp(logs - logs.max(axis=1, keepdims=True)))
