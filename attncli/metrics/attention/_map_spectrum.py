"""The largest singular values of maps whose rows come in strips and are not kept.

Block Krylov: in every round each strip A_i gives A_i^T (A_i V) to the sum A^T A V, which is one more product with A and
with A^T. The squares of the singular values are then found in the space of all blocks V so far, where V^T A^T A V needs
nothing beyond these sums. They are lower bounds; what is left of A^T A v - θ v says how close, and rounds go on until
that is little.
"""

from functools import lru_cache
from typing import TYPE_CHECKING

from attncli.metrics.attention._row_block_of_maps import MapStripRows

if TYPE_CHECKING:
    from torch import Tensor

BLOCK = 16
"""Vectors of a round: a product with this many costs no more than with fewer."""
ROUNDS = 6
"""The most rounds; each requests all strips once more."""
STILL = 1e-3
"""How far below the true ones, as a part of themselves, the two largest values may be when they are taken."""
LEAST = 2e-2
"""Of the largest value: errors are parts of no less than that, as squares of much smaller values drown in float32."""
NOISE = 1e-10
"""Of random directions, where a map of low rank has no more of its own."""
SEED = 0
UNIT_SUM = 1e-5
"""How far from 1 rows may sum that sum to 1: squares of it do not show."""


@lru_cache(maxsize=2)
def make_orthonormal_start_vectors(keys: int) -> "Tensor":
    """[key, vector], orthonormal: the same for all maps."""
    import torch

    generator = torch.Generator().manual_seed(SEED)
    shape = (keys, min(BLOCK, keys))
    start = torch.randn(shape, generator=generator, dtype=torch.float64, device="cpu")
    start[:, 0] = (
        1.0  # for rows that sum to one this gives the column sums, which the uniform part needs
    )
    found: Tensor = torch.linalg.qr(start).Q
    return found


def orthogonalise(vectors: "Tensor", basis: "Tensor") -> "Tensor":
    """An orthonormal basis of what vectors add to a basis, orthogonal to it to eleven digits."""
    import torch

    for _ in range(3):
        vectors = vectors - basis @ (basis.transpose(-2, -1) @ vectors)
        vectors = torch.linalg.qr(vectors).Q
    return vectors


class SpectrumIteration:
    """The singular values of every map of a layer, and of the same maps without their uniform part 11^T / n."""

    def __init__(self, rows: MapStripRows) -> None:
        import torch

        self.generator = torch.Generator().manual_seed(SEED + 1)
        self.lead, self.keys, self.queries = rows.weights.shape[:2], rows.keys, rows.queries
        start = make_orthonormal_start_vectors(self.keys).to(rows.weights.device)
        self.blocks = [start.expand(*self.lead, -1, -1)]
        self.products: list[Tensor] = []
        self.running = self.make_zero_products(rows)
        self.received = rows.weights.new_zeros((*self.lead, self.keys)).double()
        self.square = rows.weights.new_zeros(self.lead).double()
        self.centred_square = self.square.clone()
        self.rows_sum_to_one = True
        self.values: Tensor | None = None
        self.short = torch.zeros(self.lead, dtype=torch.float64, device=start.device)
        """[batch, head]: how far below the true ones, as a part of itself, one of the two largest values may be."""

    def sample_random_vectors(self, like: "Tensor", columns: int) -> "Tensor":
        import torch

        drawn = torch.randn(self.keys, columns, generator=self.generator, dtype=torch.float64)
        return drawn.to(like.device).expand(*self.lead, -1, -1).clone()

    def make_zero_products(self, rows: MapStripRows) -> "Tensor":
        return rows.weights.new_zeros(self.blocks[-1].shape).double()

    def accumulate_map_rows(self, rows: MapStripRows) -> None:
        weights = rows.weights
        part = slice(rows.first_key, rows.first_key + weights.shape[-1])
        if not self.products:
            self.received[..., part] += rows.sum_received_mass()[0]
            self.square += rows.sums_of_squares.double().sum(dim=-1)
            self.centred_square += rows.centred_sums_of_squares.double().sum(dim=-1)
            self.rows_sum_to_one &= bool(((rows.row_sums - 1.0).abs() <= UNIT_SUM).all())
        if rows.multiply_by_gram is not None:
            vectors = self.blocks[-1].flatten(0, 1)
            found = rows.multiply_by_gram(vectors, range(len(vectors)))
            self.running += found.view_as(self.running)
            return
        block = self.blocks[-1][..., part, :].to(weights.dtype)
        across = (weights @ block).transpose(-2, -1)
        self.running[..., part, :] += (across @ weights).transpose(-2, -1).double()

    def needs_another_iteration(self) -> bool:
        """Whether all strips are needed once more."""
        self.products.append(self.running)
        self.find_largest_singular_values()
        room = self.keys - sum(block.shape[-1] for block in self.blocks)
        if room == 0:  # nothing is left out, so these are the singular values themselves
            self.short.zero_()
        small = self.keys <= ROUNDS * BLOCK  # and the whole space costs next to nothing
        settled = bool((self.short <= STILL).all()) and not small
        if room == 0 or settled or len(self.products) == ROUNDS:
            return False
        self.blocks.append(self.orthogonal_directions(min(BLOCK, room)))
        self.running = self.running.new_zeros(self.blocks[-1].shape)
        return True

    def find_largest_singular_values(self) -> None:
        """The two largest values in the space of all blocks, and how far below the true ones they may be.

        With r = A^T A v - θ v there is an eigenvalue within |r| of θ, and within |r|² / gap where θ stands alone.
        """
        import torch

        squares, vectors = (found.flip(-1) for found in torch.linalg.eigh(self.project_on_blocks()))
        squares = squares.clamp_min(0.0)
        self.values = squares.new_zeros((*self.lead, 2))
        self.values[..., : squares.shape[-1]] = squares[..., :2].sqrt()
        if squares.shape[-1] < 3:
            return
        top, chosen = squares[..., :2], vectors[..., :2]
        left = (
            torch.cat(self.products, -1) @ chosen
            - torch.cat(self.blocks, -1) @ chosen * top[..., None, :]
        )
        rest = left.norm(dim=-2)
        gap = (top - squares[..., 1:3]).clamp_min(NOISE * top[..., :1] + NOISE)
        error = torch.minimum(rest, rest.square() / gap)
        least = top.clamp_min(LEAST**2 * top[..., :1]).clamp_min(NOISE)
        self.short = (error / (2.0 * least)).amax(dim=-1)

    def orthogonal_directions(self, columns: int) -> "Tensor":
        """The last products as directions that the blocks do not have, orthogonal to eleven digits."""
        import torch

        found = self.products[-1][..., :columns]
        found = found + NOISE * found.norm(dim=-2, keepdim=True) * self.sample_random_vectors(
            found, columns
        )
        return orthogonalise(found, torch.cat(self.blocks, dim=-1))

    def project_on_blocks(self) -> "Tensor":
        """V^T A^T A V over all blocks."""
        import torch

        basis = torch.cat(self.blocks, dim=-1)
        inner = basis.transpose(-2, -1) @ torch.cat(self.products, dim=-1)
        return (inner + inner.transpose(-2, -1)) / 2

    def norms_of_centred_map(self) -> tuple["Tensor", "Tensor"]:
        """s1 and ‖·‖_F² of A - 11^T / n, n the number of keys.

        Where rows sum to one it takes the first vector of the first block to 0 and is A for all others. What float32
        leaves of differences would drown it where attention is close to uniform.
        """
        import torch

        if self.rows_sum_to_one:
            inner = self.project_on_blocks()[..., 1:, 1:]
            if not inner.shape[-1]:
                return self.square.new_zeros(self.lead), self.centred_square
            largest = torch.linalg.eigvalsh(inner)[..., -1].clamp_min(0.0).sqrt()
            return largest, self.centred_square
        basis = torch.cat(self.blocks, dim=-1)
        even = basis.sum(dim=-2) / self.keys
        received = (self.received[..., None, :] @ basis)[..., 0, :]
        cross = received[..., :, None] * even[..., None, :]
        inner = self.project_on_blocks() - cross - cross.transpose(-2, -1)
        inner = inner + self.queries * even[..., :, None] * even[..., None, :]
        largest = torch.linalg.eigvalsh(inner)[..., -1].clamp_min(0.0).sqrt()
        return largest, self.centred_square
