"""Decide which variants of a model run in exact arithmetic (common row and residual separate).

A missing rule raises an error, a wrong rule would not. So the variants with the most and the fewest
parts first run both exactly and in plain numbers on a short input: where plain numbers keep their
digits, the two must agree. The other variants run the same functions; what only they or a longer
text would refuse is refused where it happens.
"""

import math
from collections.abc import Mapping
from dataclasses import astuple, replace

from attncli.ablation.model_probes.operations_between_blocks import UnchangedForward
from attncli.analysis.rank_collapse.metrics_over_layers import RESIDUAL
from attncli.analysis.rank_collapse.model_variant_runs import (
    CollapseModel,
    Curves,
    Lines,
    VariantRun,
    remove_advice_from_error_text,
)
from attncli.errors import InputError
from attncli.forward_argument_types import Inputs
from attncli.models.inputs.model_input import ModelInput
from attncli.networks.ablation_variants import AblationSwitches
from attncli.tolerances import EXACT_CURVE


def find_variants_without_exact_arithmetic(
    subject: CollapseModel,
    inputs: Inputs,
    variants: Mapping[str, AblationSwitches],
    cheap: bool,
    plain: UnchangedForward | None = None,
) -> dict[str, str]:
    """Return the variants that cannot run exactly, with reasons; `cheap`: the inputs are short; `plain`: an unchanged
    forward on them, if there was one.

    What holds for one tested variant is assumed for all that were not tested.
    """
    text = ModelInput("a short input", "random", dict(inputs), 0)
    tried = {
        name: explain_why_variant_is_inexact(subject, text, variants[name], plain)
        for name in select_largest_and_smallest_variants(variants, cheap)
    }
    of_others = next(filter(None, tried.values()), "")
    found = {name: tried.get(name, of_others) for name in variants}
    return {name: why for name, why in found.items() if why}


def select_largest_and_smallest_variants(
    variants: Mapping[str, AblationSwitches], cheap: bool
) -> list[str]:
    """Select the variant with the most parts and, where that is cheap, the one with the fewest."""
    by_parts = sorted(variants, key=lambda name: sum(astuple(variants[name])))
    return list(dict.fromkeys([by_parts[-1], by_parts[0]] if cheap else by_parts[-1:]))


def explain_why_variant_is_inexact(
    subject: CollapseModel,
    text: ModelInput,
    switches: AblationSwitches,
    plain: UnchangedForward | None = None,
) -> str:
    """Why a variant is not exact; empty where it is."""
    exact_subject = replace(subject, exact=True, why_plain=None)
    run = VariantRun(exact_subject, text, switches, [RESIDUAL], sub_blocks=False, where=text.name)
    try:
        exact = run.run_in_exact_arithmetic()
    except InputError as error:
        return remove_advice_from_error_text(error)
    alone = replace(run, subject=replace(subject, exact=False))
    unchanged = switches == AblationSwitches() and not subject.eager_alone
    first = alone.run_first_pass_in_model_arithmetic(plain if unchanged else None)
    if are_residual_curves_equal(exact, first.values):
        return ""
    return describe_residual_curve_difference(exact, alone.run_in_model_arithmetic("", first))


def are_residual_curves_equal(exact: Curves, plain: Lines) -> bool:
    """Whether exact and plain curves agree without an allowance for rounding, which then need not
    be measured."""
    return all(
        abs(ours - known) <= EXACT_CURVE.tolerance_for_dtype()  # False where either is not a number
        for place, line in plain.items()
        for ours, known in zip(exact[place].values[RESIDUAL], line[RESIDUAL], strict=True)
    )


def describe_residual_curve_difference(exact: Curves, plain: Curves) -> str:
    """Describe where exact and plain curves differ by more than rounding; empty where they agree."""
    for place, trajectory in plain.items():
        ours = exact[place].values[RESIDUAL]
        whys = exact[place].unknown.get(RESIDUAL, [""] * len(ours))
        plain_values = zip(trajectory.values[RESIDUAL], trajectory.uncertain[RESIDUAL], strict=True)
        for layer, (known, by) in enumerate(plain_values):
            if math.isnan(known) or whys[layer]:  # rounding has taken it
                continue
            # not a number is not
            near = abs(ours[layer] - known) <= by + EXACT_CURVE.tolerance_for_dtype()
            if not near:
                return (
                    f"log10 r after layer {layer} of {place.stack} is {ours[layer]:.4g} exactly and "
                    f"{known:.4g} in {trajectory.arithmetic}: its code is not understood"
                )
    return ""
