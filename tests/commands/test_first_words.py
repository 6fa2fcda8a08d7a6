"""What stands in the first line: the user's own model first, plain words, nothing that says nothing."""

import numpy as np
import pytest
from commands import attn as command

import attncli as attn
from attncli.analysis.rank_collapse.findings_and_headlines import (
    format_model_headline as collapse_headline,
)
from attncli.analysis.rank_collapse.metrics_over_layers import EXACT, RESIDUAL, Ensemble, Trajectory
from attncli.commands.approximate.smallest_width_and_logits.width_growth_with_length import (
    compare_width_growth_laws,
    summarize_width_growth,
)
from attncli.commands.attribute.report import LIFT, OF_CONSTANTS, SHARE, ChosenToken
from attncli.commands.attribute.report import (
    format_top_attributed_tokens_headline as attribution_headline,
)
from attncli.commands.rank_collapse.trained_model_rank_collapse import (
    describe_regime_of_resolved_layers as regime_of,
)
from attncli.maths.curve_fits.width_growth_laws import GrowthLaw, rank_width_growth_laws
from attncli.records import Finding, Row

LENGTHS = [16.0, 32.0, 64.0, 128.0, 256.0, 512.0]


def laws(widths: list[float]) -> list[GrowthLaw]:
    return rank_width_growth_laws(LENGTHS, widths)


def test_a_width_that_grows_is_said_to_grow_as_something() -> None:
    power = [round(2.0 * n**0.7) for n in LENGTHS]
    assert summarize_width_growth(laws(power)) == "width grows about as n^0.7"
    log = [round(3.0 * np.log(n)) for n in LENGTHS]
    assert (
        summarize_width_growth(laws(log))
        == "width grows, but log n and a power of n fit equally well"
    )
    many = [round(8.0 * np.log(n)) for n in LENGTHS]
    assert (
        summarize_width_growth(rank_width_growth_laws(LENGTHS * 3, many * 3))
        == "width grows about as log n"
    )
    slow = [3, 4, 3, 4, 4, 4]
    assert summarize_width_growth(laws(slow)).startswith("whether the width grows is open: ")
    assert summarize_width_growth(laws([2.0] * 6)).startswith("width stays at 2")
    assert summarize_width_growth([]) == ""


def test_the_laws_numbers_stand_in_the_table() -> None:
    widths = [round(2.0 * n**0.7) for n in LENGTHS]
    said = compare_width_growth_laws(
        laws(widths), {int(n): [d] for n, d in zip(LENGTHS, widths, strict=True)}, 999
    )
    assert said.startswith("width grows about as n^0.7. d = ")
    assert "(exponent ± 0.00" in said
    assert "AIC behind it: log n " in said


def ensemble(**ends: float) -> Ensemble:
    """Of every variant a straight line over eight layers."""
    return {
        name.replace("_", "@"): [
            Trajectory({RESIDUAL: [end * layer / 8 for layer in range(9)]}, [], EXACT)
        ]
        for name, end in ends.items()
    }


def test_the_users_model_comes_before_its_random_twin() -> None:
    """Whatever collapses more."""
    found = {"encoder": ensemble(SAN=-9.0, transformer=-0.01, SAN_random=-99.0, transformer_random=0.1)}  # fmt: skip
    findings = [
        Finding(name, regime_of(curves[0].values[RESIDUAL], "", "", EXACT))
        for name, curves in found["encoder"].items()
    ]
    said = collapse_headline(found, findings)
    own, twin = said.split("; with random weights ")
    assert own.startswith("SAN: log10 r = -9.000 at layer 8, geometric decay: ")
    assert "@" not in said
    assert twin == "SAN log10 r = -99.00 at layer 8, transformer log10 r = 0.1000 at layer 8."


def test_random_weights_are_told_of_the_variants_that_the_users_model_is_told_of() -> None:
    """Although others of them end lower and higher."""
    own = {"SAN": -9.0, "SAN+MLP": -8.0, "transformer": -0.01}
    drawn = {"SAN_random": -3.0, "SAN+MLP_random": -4.0, "transformer_random": -2.0}
    said = collapse_headline(
        {"encoder": (curves := ensemble(**own, **drawn))},
        [
            Finding(name, regime_of(one[0].values[RESIDUAL], "", "", EXACT))
            for name, one in curves.items()
        ],
    )
    assert said.endswith(
        "SAN log10 r = -3.000 at layer 8, transformer log10 r = -2.000 at layer 8."
    )


@pytest.mark.parametrize(("lift", "told"), [(1.0, False), (1.1, False), (1.4, True), (3.0, True)])
def test_rollout_is_told_where_it_is_another_than_even_attention(lift: float, told: bool) -> None:
    rows = [Row(SHARE, 0.9, "1", keys={"position": 0}), Row(OF_CONSTANTS, 0.1, "1"), Row(LIFT, lift, "1", keys={"position": 0})]  # fmt: skip
    said = attribution_headline(ChosenToken(0, {0: "fox"}), rows, 2)
    assert said.startswith("Token 0 fox after 2 blocks: 90 % from itself, 10 % from biases")
    assert ("rollout" in said) == told
    assert "1 times" not in said


ONE_HEAD = "random:gpt2?layers=1&width=16&heads=1"


def test_what_one_head_or_one_token_cannot_tell_is_not_told() -> None:
    """A middle among one head, a rank correlation over one token, and a most where every way has little."""
    slope = attn.dispersion(ONE_HEAD, lengths="4,8", metric=["entropy"]).headline
    assert " in head 0.0; uniform attention: " in slope
    assert slope.endswith("1 of 1 head disperses as fast.")
    alone = attn.sensitivity(ONE_HEAD, random_tokens=1).headline
    assert "nan" not in alone
    assert "correlation" not in alone
    assert "correlation" in attn.sensitivity(ONE_HEAD, random_tokens=5).headline
    assert attn.sensitivity(ONE_HEAD, random_tokens=4).headline.endswith(" at 4 tokens.")
    steps = attn.paths(ONE_HEAD, random_tokens=3, by="steps").headline
    assert steps.startswith("The largest part of the output travels through ")


def test_a_warning_names_options_as_one_types_them() -> None:
    outcome = command("inspect-model", "random:mamba?layers=1&width=16", "--random-tokens", "4")
    assert "choose others with --heads." in outcome.err
