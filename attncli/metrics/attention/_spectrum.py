"""The largest singular values of maps whose rows come in strips and are not kept.

Block Krylov: in every round each strip A_i gives A_i^T (A_i V) to the sum A^T A V, which is one more product with A and
with A^T. The squares of the singular values are then found in the space of all blocks V so far, where V^T A^T A V needs
nothing beyond these sums. They are lower bounds; rounds go on until they stand still.
"""

from typing import TYPE_CHECKING

from attncli.metrics.attention._rows import Rows

if TYPE_CHECKING:
    from torch import Tensor

BLOCK = 16
"""Vectors of a round: a product with as many costs no more than with fewer."""
ROUNDS = 6
"""At most; each asks for all strips once more."""
STILL = 1e-3
"""Relative change of the two largest values below which they are taken."""
LEAST = 1e-4
"""Of the largest value: a change is relative to no less than that, as smaller values are rounding."""
NOISE = 1e-10
"""Of random directions, where a map of low rank has no more of its own."""
SEED = 0


class Spectrum:
    """The singular values of every map of a layer, and of the same maps without their even part 11^T / n."""

    def __init__(self, rows: Rows) -> None:
        import torch

        self.generator = torch.Generator().manual_seed(SEED)
        self.lead, self.keys, self.queries = rows.weights.shape[:2], rows.keys, rows.queries
        start = self.noise(rows.weights, min(BLOCK, self.keys))
        start[..., 0] = (
            1.0  # rows that sum to one turn it into the column sums, which the even part needs
        )
        self.blocks = [torch.linalg.qr(start).Q]
        self.products: list[Tensor] = []
        self.running = self.zeros(rows)
        self.received = rows.weights.new_zeros((*self.lead, self.keys)).double()
        self.square = rows.weights.new_zeros(self.lead).double()
        self.values: Tensor | None = None
        self.moved = torch.zeros(self.lead, dtype=torch.float64, device=start.device)
        """[batch, head]: by how much of itself the last round moved one of the two largest values."""

    def noise(self, like: "Tensor", columns: int) -> "Tensor":
        import torch

        drawn = torch.randn(self.keys, columns, generator=self.generator, dtype=torch.float64)
        return drawn.to(like.device).expand(*self.lead, -1, -1).clone()

    def zeros(self, rows: Rows) -> "Tensor":
        return rows.weights.new_zeros(self.blocks[-1].shape).double()

    def add(self, rows: Rows) -> None:
        weights = rows.weights
        part = slice(rows.first_key, rows.first_key + weights.shape[-1])
        block = self.blocks[-1][..., part, :].to(weights.dtype)
        across = (weights @ block).transpose(-2, -1)
        self.running[..., part, :] += (across @ weights).transpose(-2, -1).double()
        if not self.products:
            self.received[..., part] += weights.sum(dim=-2).double()
            self.square += rows.squares.double().sum(dim=-1)

    def next_round(self) -> bool:
        """All strips have been added: whether they are needed once more."""
        before = self.values
        self.products.append(self.running)
        self.values = self.top(self.within())
        room = self.keys - sum(block.shape[-1] for block in self.blocks)
        if room == 0:  # nothing is left out, so these are the singular values themselves
            self.moved.zero_()
            return False
        if before is not None:
            least = self.values.clamp_min(LEAST * self.values[..., :1]).clamp_min(NOISE)
            self.moved = ((self.values - before).abs() / least).amax(dim=-1)
            if bool((self.moved <= STILL).all()) or len(self.products) == ROUNDS:
                return False
        self.blocks.append(self.fresh(min(BLOCK, room)))
        self.running = self.running.new_zeros(self.blocks[-1].shape)
        return True

    def fresh(self, columns: int) -> "Tensor":
        """The last products as directions that the blocks do not have, orthogonal to eleven digits."""
        import torch

        found = self.products[-1][..., :columns]
        found = found + NOISE * found.norm(dim=-2, keepdim=True) * self.noise(found, columns)
        for _ in range(3):
            for block in self.blocks:
                found = found - block @ (block.transpose(-2, -1) @ found)
            found = torch.linalg.qr(found).Q
        result: Tensor = found
        return result

    def within(self) -> "Tensor":
        """V^T A^T A V over all blocks."""
        import torch

        basis = torch.cat(self.blocks, dim=-1)
        inner = basis.transpose(-2, -1) @ torch.cat(self.products, dim=-1)
        return (inner + inner.transpose(-2, -1)) / 2

    def top(self, inner: "Tensor", count: int = 2) -> "Tensor":
        """The largest singular values [batch, head, count], 0 where a map has fewer."""
        import torch

        squares = torch.linalg.eigvalsh(inner).flip(-1)[..., :count].clamp_min(0.0)
        found: Tensor = squares.new_zeros((*squares.shape[:-1], count))
        found[..., : squares.shape[-1]] = squares.sqrt()
        return found

    def centred(self) -> tuple["Tensor", "Tensor"]:
        """s1 and ‖·‖_F² of A - 11^T / n, n the number of keys."""
        import torch

        basis = torch.cat(self.blocks, dim=-1)
        even = basis.sum(dim=-2) / self.keys
        received = (self.received[..., None, :] @ basis)[..., 0, :]
        cross = received[..., :, None] * even[..., None, :]
        inner = self.within() - cross - cross.transpose(-2, -1)
        inner = inner + self.queries * even[..., :, None] * even[..., None, :]
        total = self.received.sum(dim=-1)
        square = self.square - 2.0 * total / self.keys + self.queries / self.keys
        return self.top(inner, 1)[..., 0], square.clamp_min(0.0)
