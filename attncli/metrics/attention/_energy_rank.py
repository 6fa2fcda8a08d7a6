"""How many singular values of a map hold 90 % of ‖A‖_F²: by bounds, and by all of them where bounds do not decide.

G = A^T A is multiplied with blocks of vectors alone. Q is an orthonormal basis of all blocks so far, M = Q^T G Q with the
eigenvalues θ_1 ≥ θ_2 ≥ …, R = G Q - Q M, and C is what G is beside Q. For the squares σ² of the singular values

    Σ_{i≤k} σ_i² ≥ Σ_{i≤k} θ_i
    Σ_{i<k} σ_i² ≤ Σ_{i<k} λ_i(M + R^T R / s)  for s = θ_{k-1} - c > 0 and any c ≥ ‖C‖, as G ⪯ diag(M + R^T R / s, C + s),

so k is decided where the first reaches 90 % and the second does not. c is the largest ‖C ω‖ of random vectors ω over
MISSED, which is too little for less than one map in 10^9 (one ω: Halko, Martinsson & Tropp 2011, lemma 4.1).
"""

from functools import lru_cache
from typing import TYPE_CHECKING

from attncli.metrics.attention._map_spectrum import orthogonalise
from attncli.metrics.attention._row_block_of_maps import MapStripRows
from attncli.resource_limits import require_memory

if TYPE_CHECKING:
    from torch import Tensor

SHARE = 0.9
ROUNDING = 1e-6
"""Of ‖A‖_F²: a sum that is below the 90 % by no more than float32 leaves has reached them."""
UNSURE = 1e-5
"""Of ‖A‖_F²: float32 may move the bounds by less; what they decide by less they do not decide."""
FEW_KEYS = 256
"""With no more, all singular values cost as little as bounds."""
BLOCK = 32
"""Vectors of a round."""
PROBES = 32
"""Random vectors ω."""
MISSED = 0.64
"""A normal number is closer to 0 with a probability of .478: those of all ω are, in some round, with one of 9e-10."""
ROUNDS = 16
WIDEST = 4
"""Keys for each vector of the widest basis: rounds beyond it cost as much as all singular values."""
SEED = 0
REMEDY = "cut the text with `tokens`"


@lru_cache(maxsize=2)
def make_start_vectors(keys: int) -> "Tensor":
    """[key, vector] float32, the same for all maps: an orthonormal block, then the random vectors; few keys: all of them."""
    import torch

    if keys <= FEW_KEYS:
        return torch.eye(keys, dtype=torch.float32, device="cpu")
    generator = torch.Generator().manual_seed(SEED)
    shape = (keys, BLOCK + PROBES)
    drawn = torch.randn(shape, generator=generator, dtype=torch.float64, device="cpu")
    drawn[:, 0] = 1.0
    drawn[:, :BLOCK] = torch.linalg.qr(drawn[:, :BLOCK]).Q
    return drawn.float()


class EnergyRank:
    """The count for each map of one attention, from strips with their weights or from products alone."""

    def __init__(self, rows: MapStripRows) -> None:
        self.lead, self.keys = rows.weights.shape[:2], rows.keys
        self.squares = rows.weights.new_zeros(self.lead).double()
        self.multiply_by_gram = rows.multiply_by_gram
        if self.multiply_by_gram is None:
            maps = self.lead.numel()
            size = maps * self.keys**2 * rows.weights.element_size()
            what = f"the rank of {maps} maps over {self.keys} keys"
            require_memory(size, what, REMEDY)
            self.sums = rows.weights.new_zeros((*self.lead, self.keys, self.keys))

    def accumulate_map_rows(self, rows: MapStripRows) -> None:
        self.squares += rows.sums_of_squares.double().sum(dim=-1)
        if self.multiply_by_gram is not None:
            # at once: a model may write to its keys later
            self.known = self.count_leading_singular_values_of_all_maps()
            return
        part = slice(rows.first_key, rows.first_key + rows.weights.shape[-1])
        self.sums[..., part, part] += rows.weights.transpose(-2, -1) @ rows.weights

    def count_leading_singular_values(self) -> "Tensor":
        """[batch, head]"""
        return (
            self.count_leading_singular_values_of_all_maps()
            if self.multiply_by_gram is None
            else self.known
        )

    def count_leading_singular_values_of_all_maps(self) -> "Tensor":
        found = self.squares.flatten().clone()
        left = list(range(len(found)))
        if self.keys > FEW_KEYS:
            left = self.count_singular_values_by_bounds(found)
        together = max(1, FEW_KEYS**2 // self.keys**2)  # each pass goes through all maps
        for start in range(0, len(left), together):
            units = left[start : start + together]
            sums = self.find_squared_singular_values(units).cumsum(dim=-1)
            found[units] = (sums < (SHARE - ROUNDING) * sums[:, -1:]).sum(dim=-1).to(found) + 1.0
        return found.view(self.lead)

    def count_singular_values_by_bounds(self, found: "Tensor") -> list[int]:
        """Write what bounds decide; the maps, counted over batch and heads, that they do not."""
        import torch

        energy = self.squares.flatten()
        units = torch.arange(len(energy), device=energy.device)
        drawn = make_start_vectors(self.keys).to(energy).expand(len(units), -1, -1)
        basis, probes = drawn[..., :BLOCK], drawn[..., BLOCK:]
        first = self.multiply_by_gram_matrices(drawn, units)
        products, probed = first[..., :BLOCK], first[..., BLOCK:]
        abandoned = []
        while True:
            counts, decided = bound_rank_by_ritz_values(
                basis, products, probes, probed, energy[units]
            )
            found[units[decided]] = counts[decided].double()
            hopeless = ~decided & (4 * WIDEST * counts > self.keys) & (basis.shape[-1] > BLOCK)
            abandoned += units[hopeless].tolist()
            going = ~decided & ~hopeless
            units, basis, products, probes, probed = (
                each[going] for each in (units, basis, products, probes, probed)
            )
            wider = basis.shape[-1] + BLOCK
            if not len(units) or wider > min(ROUNDS * BLOCK, self.keys // WIDEST):
                return [*abandoned, *units.tolist()]
            block = orthogonalise(products[..., -BLOCK:], basis)
            basis = torch.cat([basis, block], dim=-1)
            products = torch.cat([products, self.multiply_by_gram_matrices(block, units)], dim=-1)

    def multiply_by_gram_matrices(self, vectors: "Tensor", units: "Tensor") -> "Tensor":
        """G of some maps times vectors [map, key, vector]."""
        if self.multiply_by_gram is not None:
            return self.multiply_by_gram(vectors, units.tolist())
        return (self.sums.flatten(0, 1)[units] @ vectors.to(self.sums.dtype)).double()

    def find_squared_singular_values(self, units: list[int]) -> "Tensor":
        """[map, value]: σ², falling."""
        import torch

        if self.multiply_by_gram is None:
            gram = self.sums.flatten(0, 1)[units].double()
        else:
            require_memory(24 * self.keys**2, f"the rank of a map over {self.keys} keys", REMEDY)
            gram = torch.eye(self.keys, dtype=torch.float64).repeat(len(units), 1, 1)
            for start in range(0, self.keys, FEW_KEYS):
                part = gram[..., start : start + FEW_KEYS]
                part.copy_(self.multiply_by_gram(part, units))
        found: Tensor = torch.linalg.eigvalsh(gram).flip(-1).clamp_min(0.0)
        return found


def bound_rank_by_ritz_values(
    basis: "Tensor", products: "Tensor", probes: "Tensor", probed: "Tensor", energy: "Tensor"
) -> tuple["Tensor", "Tensor"]:
    """The least k for the Ritz values, one more than there are where these are not enough; and whether bounds decide it.

    `products`, `probed`: G of each map times its basis and the random vectors. `energy` [map]: ‖A‖_F².
    """
    import torch

    turned = basis.transpose(-2, -1)
    inner = turned @ products
    ritz_matrix = (inner + inner.transpose(-2, -1)) / 2
    ritz = torch.linalg.eigvalsh(ritz_matrix).flip(-1)
    enough, unsure = (SHARE - ROUNDING) * energy, UNSURE * energy
    sums = ritz.cumsum(dim=-1)
    counts = (sums < enough[:, None]).sum(dim=-1) + 1
    at = counts.clamp_max(ritz.shape[-1])[:, None] - 1
    reached = sums.gather(-1, at)[:, 0] >= enough + unsure
    deflated = probed - products @ (turned @ probes)
    deflated = deflated - basis @ (turned @ deflated)
    largest = deflated.norm(dim=-2).amax(dim=-1) / MISSED
    before = (at - 1).clamp_min(0)
    room = ritz.gather(-1, before)[:, 0] - largest
    decided = reached & (counts == 1)
    for place in (reached & (counts > 1) & (room > 0.0)).nonzero()[:, 0].tolist():
        left = products[place].T @ products[place] - inner[place].T @ inner[place]
        above = torch.linalg.eigvalsh(ritz_matrix[place] + left / room[place])
        decided[place] = above[1 - counts[place] :].sum() < enough[place] - unsure[place]
    return counts, decided
