"""What a method of fitting says of itself, beside the method: when `auto` tries it, and where a search for its width begins."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from attncli.registry import Registry

FITS = Registry("method", "attncli.fits")

Function = TypeVar("Function", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class MethodManner:
    """What searches need to know of a method."""

    auto: int | None = None
    """Its place among those that `auto` tries; None: it is run by its name alone."""
    last: bool = False
    """`auto` tries it only where those before it have found nothing."""
    fixed_keys: bool = False
    """Keys know nothing of the pattern: the width it needs is near k ln n, for k keys a row."""
    needs: Callable[[int], int] | None = None
    """The one width that it needs, by the most keys of a row; None: it is searched for."""
    at_width: tuple[int, str] | None = None
    """Its place and its spelling where methods are compared at a given width, for the smallest logits."""
    for_heads: int | None = None
    """Its place where a trained head is shown its inputs: there the width is given, and small logits come first."""


def method(**manner: Any) -> Callable[[Function], Function]:
    """Attach what a method says of itself; the function is returned untouched."""

    def attach(function: Function) -> Function:
        function.manner = MethodManner(**manner)  # type: ignore[attr-defined]
        return function

    return attach


def manner(name: str) -> MethodManner:
    """Of a method by its name, with or without parameters; one that says nothing is run by its name alone."""
    found: MethodManner = getattr(FITS[name.partition(":")[0]], "manner", MethodManner())
    return found


def tried_by_auto(last: bool | None = None) -> list[str]:
    """In their order; `last`: only those that are kept for the end, or only the others."""
    places = {name: manner(name) for name in FITS.names()}
    chosen = {name: one.auto for name, one in places.items() if one.auto is not None and last in (None, one.last)}  # fmt: skip
    return sorted(chosen, key=lambda name: chosen[name] or 0)


def compared_at_a_width() -> list[str]:
    """As `auto` spells them."""
    found = [at for name in FITS.names() if (at := manner(name).at_width) is not None]
    return [spelling for _, spelling in sorted(found)]


def one_wide(name: str) -> bool:
    """Whether the method makes modules of width 1, whatever the pattern."""
    needs = manner(name).needs
    return needs is not None and needs(2) == 1


def tried_for_heads() -> list[str]:
    places = {name: manner(name).for_heads for name in FITS.names()}
    chosen = {name: place for name, place in places.items() if place is not None}
    return sorted(chosen, key=lambda name: chosen[name])


def widths(name: str, most: int, length: int, widest: int) -> Iterator[int]:
    """Where a search for the width begins, and its steps, for rows of at most so many keys."""
    own = manner(name)
    if own.needs is not None:
        yield own.needs(most)
        return
    d = max(2, round(2.0 * most * np.log(length))) if own.fixed_keys else 2
    while d < widest:
        yield d
        d = max(d + 1, round(1.5 * d)) if own.fixed_keys else 2 * d
    yield widest
