"""Properties of fitting methods: when `auto` tries one, and where a search for its width begins."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_array

from attncli.fits._fit_request_and_module import Fit
from attncli.registry import DECLARED, EntryDeclaration, Registry

FITS: Registry[Callable[..., Fit]] = Registry("method", "attncli.fits")


@dataclass(frozen=True, slots=True, kw_only=True)
class MethodSpec(EntryDeclaration):
    """The properties of a method that searches use."""

    auto: int | None = None
    """Its rank among those that `auto` tries; None: it is run by its name alone."""
    last: bool = False
    """Whether `auto` tries it only if those before it have found nothing."""
    fixed_keys: bool = False
    """Whether keys are independent of the pattern: the width it needs is near k ln n, for k keys a row."""
    needs: Callable[[int], int] | None = None
    """The one width that it needs, by the most keys of a row; None: it is searched for."""
    at_width: tuple[int, str] | None = None
    """Its rank and its spelling where methods are compared at a given width, for the smallest logits."""
    competes: Callable[[int, int], bool] = lambda most, d: True
    """Whether its logits may be the smallest at a width, by the most keys of a row and the width; where not, it is tried
    there only if those that compete find nothing."""
    for_heads: int | None = None
    """Its rank for a trained head's own inputs: there the width is given, and small logits come first."""


method = MethodSpec
"""As a decorator: `@method(auto=9, last=True)`."""


def find_fitting_method_spec(name: str) -> MethodSpec:
    """Find the properties of a method by its name, with or without parameters; a method without any runs by its name
    alone."""
    found = DECLARED.get(FITS[name.partition(":")[0]])
    return found if isinstance(found, MethodSpec) else MethodSpec()


def list_methods_tried_by_auto(last: bool | None = None) -> list[str]:
    """The methods of `auto` in order; `last`: only those that are tried at the end, or only the others."""
    places = {name: find_fitting_method_spec(name) for name in FITS.names()}
    chosen = {
        name: one.auto
        for name, one in places.items()
        if one.auto is not None and last in (None, one.last)
    }
    return sorted(chosen, key=lambda name: chosen[name] or 0)


def list_methods_with_small_logits(most: int, d: int) -> list[str]:
    """Methods for a given width whose logits may be the smallest, for rows of at most so many keys."""
    return [
        name
        for name in list_methods_at_fixed_width()
        if find_fitting_method_spec(name).competes(most, d)
    ]


def list_methods_at_fixed_width() -> list[str]:
    """List the methods for a given width, as `auto` spells them."""
    found = [
        at for name in FITS.names() if (at := find_fitting_method_spec(name).at_width) is not None
    ]
    return [spelling for _, spelling in sorted(found)]


def is_width_one_method(name: str) -> bool:
    """Whether the method makes modules of width 1, whatever the pattern."""
    needs = find_fitting_method_spec(name).needs
    return needs is not None and needs(2) == 1


def list_methods_for_trained_heads() -> list[str]:
    places = {name: find_fitting_method_spec(name).for_heads for name in FITS.names()}
    chosen = {name: place for name, place in places.items() if place is not None}
    return sorted(chosen, key=lambda name: chosen[name])


def iter_widths_to_search(name: str, target: csr_array, widest: int) -> Iterator[int]:
    """The widths that a search tries for this pattern, rising."""
    own, most, length = (
        find_fitting_method_spec(name),
        int(np.diff(target.indptr).max()),
        target.shape[0],
    )
    if own.needs is not None:
        yield own.needs(most)
        return
    d = max(2, round(2.0 * most * np.log(length))) if own.fixed_keys else 2
    while d < widest:
        yield d
        d = max(d + 1, round(1.5 * d)) if own.fixed_keys else 2 * d
    yield widest
