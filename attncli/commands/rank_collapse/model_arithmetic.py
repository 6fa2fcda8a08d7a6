"""Which variants of a model are run with common row and residual apart: those that are seen to be right so.

A rule that is missing says so. A rule that is wrong would not, so before any is believed the variants with the most and
the fewest parts are run both ways on a short input: where plain numbers have their digits, the two must agree. The others
run the same functions; what only they or a longer text would refuse is refused where it happens.
"""

import math
from collections.abc import Mapping
from dataclasses import astuple, replace
from typing import Any

from attncli.analysis.states.trajectories import RESIDUAL, Trajectory
from attncli.analysis.states.variant_runs import (
    CollapseModel,
    Curves,
    Lines,
    VariantRun,
    strip_advice,
)
from attncli.errors import InputError
from attncli.models.inputs.texts import ModelInput
from attncli.networks.variants import Switches

AGREEMENT = 1e-6
"""Decades by which the two ways may differ beside what rounding takes."""


def find_inexact_variants(
    subject: CollapseModel,
    inputs: Mapping[str, Any],
    variants: Mapping[str, Switches],
    cheap: bool,
) -> dict[str, str]:
    """The variants that are not to be run exactly, and why; `cheap`: the inputs are short.

    What holds of one that was tried holds of all that were not.
    """
    text = ModelInput("a short input", "random", dict(inputs), 0)
    tried = {
        name: explain_inexact(subject, text, variants[name])
        for name in select_trials(variants, cheap)
    }
    of_others = next(filter(None, tried.values()), "")
    found = {name: tried.get(name, of_others) for name in variants}
    return {name: why for name, why in found.items() if why}


def select_trials(variants: Mapping[str, Switches], cheap: bool) -> list[str]:
    """Those with the most parts and, where that is cheap, the fewest."""
    by_parts = sorted(variants, key=lambda name: sum(astuple(variants[name])))
    return list(dict.fromkeys([by_parts[-1], by_parts[0]] if cheap else by_parts[-1:]))


def explain_inexact(subject: CollapseModel, text: ModelInput, switches: Switches) -> str:
    """Why a variant is not exact; empty where it is."""
    asked = replace(subject, exact=True, why_plain=None)
    run = VariantRun(asked, text, switches, [RESIDUAL], sub_blocks=False, where=text.name)
    try:
        exact = run.exactly()
    except InputError as error:
        return strip_advice(error)
    alone = replace(run, subject=replace(subject, exact=False))
    first = alone.first_plain_pass()
    if agree_without_excuse(exact, first.values):
        return ""
    return describe_disagreement(exact, alone.in_plain_numbers("", first))


def agree_without_excuse(exact: Curves, plain: Lines) -> bool:
    """Whether the two ways agree although nothing is put down to rounding: how much it takes need not be measured then."""
    return all(
        abs(ours - known) <= AGREEMENT  # False where either is not a number
        for place, line in plain.items()
        for ours, known in zip(exact[place].measured[RESIDUAL], line[RESIDUAL], strict=True)
    )


def describe_disagreement(exact: Curves, plain: Curves) -> str:
    """Where the two ways differ by more than rounding; empty where they agree."""
    for place, trajectory in plain.items():
        ours = exact[place].measured[RESIDUAL]
        whys = exact[place].unknown.get(RESIDUAL, [""] * len(ours))
        for layer, (known, by) in enumerate(known_numbers(trajectory)):
            if math.isnan(known) or whys[layer]:  # rounding has taken it
                continue
            if not abs(ours[layer] - known) <= by + AGREEMENT:  # not a number is not near either
                return (
                    f"log10 r after layer {layer} of {place.stack} is {ours[layer]:.4g} exactly and "
                    f"{known:.4g} in {trajectory.arithmetic}: its code is not understood"
                )
    return ""


def known_numbers(trajectory: Trajectory) -> list[tuple[float, float]]:
    """What is known of a plain curve, each with its uncertainty."""
    return list(zip(trajectory.measured[RESIDUAL], trajectory.uncertain[RESIDUAL], strict=True))
