"""Singular values of maps whose rows come in strips."""

from attncli.metrics.attention._rows import Rows


class Spectrum:
    def add(self, rows: Rows) -> None:
        raise NotImplementedError
