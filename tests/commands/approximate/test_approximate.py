"""The study from patterns to report and file, and back."""

from functools import cache
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from attncli.commands.approximate.fixed_attention_module.fit_patterns_at_common_width import (
    Solution,
    fit_patterns_by_all_methods,
)
from attncli.commands.approximate.fixed_attention_module.pattern_fit_report import (
    build_approximation_report,
)
from attncli.commands.approximate.smallest_width_and_logits.smallest_logits_by_width import (
    measure_logit_scale_by_width,
)
from attncli.commands.approximate.smallest_width_and_logits.width_growth_with_length import (
    measure_width_growth_with_length,
)
from attncli.commands.verify_fit.report import measure_saved_fit_again
from attncli.errors import AttnError, InputError
from attncli.fits import FitRequest
from attncli.fits._fit_files import build_fit_metadata, collect_tensors_of_fits, read_fits
from attncli.maths.head_capacity.width_formulas import compute_johnson_lindenstrauss_width
from attncli.maths.number_format import format_number, format_two_significant_digits
from attncli.patterns import build_pattern
from attncli.records import Report

PATTERNS = ("window:3", "random:k=3,weights=dirichlet", "permutation")


def targets(length: int = 48, patterns: tuple[str, ...] = PATTERNS):
    return {text: build_pattern(text, length, np.random.default_rng(0)) for text in patterns}


@cache
def solved(methods: tuple[str, ...] = ("auto",), **request) -> Solution:
    """Made once; no test changes it."""
    return fit_patterns_by_all_methods(targets(), methods, FitRequest(**({"d": 1} | request)), [0])


def values(report: Report, metric: str) -> dict[str, float | None]:
    return {str(row.keys["fit"]): row.value for row in report.rows if row.metric == metric}


@pytest.mark.slow
def test_headline_answers_with_the_width_and_the_papers_bound() -> None:
    one = fit_patterns_by_all_methods(
        targets(patterns=("permutation",)), ["auto"], FitRequest(d=1), [0]
    )
    bound = format_two_significant_digits(compute_johnson_lindenstrauss_width(48, 1, 0.2, 0.2, 1.0))
    scale = format_number(one.fits[0].module.x[:, :2].max())  # keys at n = 48 include the axes
    assert build_approximation_report(one).headline == (
        f"d = 2 is enough (cyclic, logits to {scale}); the paper's construction would need d ≈ {bound}."
    )
    assert bound == "15,000"
    three = solved()
    widest = max(one.best_attempt.fit.d for one in three.patterns)
    assert build_approximation_report(three).headline.startswith(
        f"d = {widest} is enough: one module makes all 3 patterns"
    )


@pytest.mark.slow
def test_one_module_serves_all_patterns() -> None:
    solution = solved()
    weights = {fit.module.w_q.tobytes() + fit.module.w_k.tobytes() for fit in solution.fits}
    assert len(weights) == 1
    report = build_approximation_report(solution)
    assert report.source["module"]["patterns"] == list(PATTERNS)
    assert len(report.source["module"]["weights_sha256"]) == 64
    for fit in solution.fits:
        assert fit.module.x.shape == (48, 2 * report.source["module"]["d"])


@pytest.mark.slow
def test_rows_cover_every_pattern_and_method() -> None:
    report = build_approximation_report(solved(("learned", "cyclic", "convex"), dtype="float32"))
    widths = values(report, "d_min")
    assert len(widths) == 9
    assert widths["permutation cyclic"] == 2
    for label, meets in values(report, "meets").items():
        variation = values(report, "total_variation")[label]
        assert (meets == 1.0) == (widths[label] is not None)
        assert meets == 0.0 or (variation is not None and variation <= 0.01)
    nulls = [row for row in report.rows if row.value is None]
    assert nulls
    assert all(row.note for row in nulls)
    assert {row.metric for row in report.rows} <= report.metrics.keys()


@pytest.mark.slow
def test_same_seed_same_report_and_time_only_on_demand() -> None:
    solution = solved()
    first = build_approximation_report(solution)
    assert first == build_approximation_report(solved.__wrapped__())
    assert not values(first, "seconds")
    assert len(values(build_approximation_report(solution, timing=True), "seconds")) == 3


@pytest.mark.slow
def test_a_given_width_is_kept_and_a_failed_search_is_not_called_impossible() -> None:
    narrow = build_approximation_report(
        fit_patterns_by_all_methods(
            targets(), ["learned"], FitRequest(d=2, effort=1), [0], search=False
        )
    )
    assert set(values(narrow, "d").values()) == {2.0}
    assert "not met" in narrow.headline
    short = fit_patterns_by_all_methods(
        targets(), ["learned"], FitRequest(d=1, effort=1), [0], widest=2
    )
    report = build_approximation_report(short)
    text = report.headline + " ".join(finding.text for finding in report.findings)
    assert "not found up to d = 2" in text
    assert "impossible" not in text


def test_auto_beside_its_choice_is_listed_once() -> None:
    solution = fit_patterns_by_all_methods(
        targets(patterns=("permutation",)), ["cyclic", "auto"], FitRequest(d=1), [0]
    )
    assert [attempt.method for attempt in solution.patterns[0].attempts] == ["cyclic"]


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_a_saved_fit_is_verified_from_the_file_alone(dtype: str, tmp_path: Path) -> None:
    solution = solved(dtype=dtype)
    path = tmp_path / "fit.safetensors"
    save_file(
        collect_tensors_of_fits(solution.fits),
        path,
        build_fit_metadata(solution.fits, solution.request),
    )
    report = measure_saved_fit_again(path)
    assert report.headline.startswith("All 3 patterns")
    again, first = (
        values(report, "total_variation"),
        values(build_approximation_report(solution), "total_variation"),
    )
    assert again == pytest.approx(first, rel=1e-3)

    f = load_file(path)  # the four lines
    logits = f["x.1"] @ f["w_q"] @ f["w_k"].T @ f["x.1"].T
    made = np.exp(logits - logits.max(axis=1, keepdims=True))
    made /= made.sum(axis=1, keepdims=True)
    made[f["target.1.row"], f["target.1.col"]] -= f["target.1.value"]
    label = next(label for label in again if label.startswith("random"))
    assert 0.5 * np.abs(made).sum(axis=1).max() == pytest.approx(again[label], rel=1e-3)


@pytest.mark.slow
def test_a_spoiled_fit_no_longer_passes(tmp_path: Path) -> None:
    solution = solved()
    held = collect_tensors_of_fits(solution.fits)
    held["x.0"] = held["x.0"].copy()
    held["x.0"][5] = held["x.0"][6]
    save_file(
        held, tmp_path / "fit.safetensors", build_fit_metadata(solution.fits, solution.request)
    )
    assert measure_saved_fit_again(tmp_path / "fit.safetensors").headline.startswith(
        "2 of 3 patterns"
    )


BROKEN = {
    "no module": (lambda held, meta: held.pop("w_q"), "no fitted module"),
    "no x": (lambda held, meta: held.pop("x.0"), "names 2 fitted patterns of 2 but holds 1"),
    "part missing": (lambda held, meta: held.pop("target.1.col"), "incomplete"),
    "other shape": (lambda held, meta: held.update({"w_k": held["w_k"][:, 1:]}), "do not fit together"),
    "complex w_q": (lambda held, meta: held.update({"w_q": (held["w_q"] + 1j).astype(np.complex64)}), "w_q holds C64, which is not read"),
    "complex x": (lambda held, meta: held.update({"x.1": held["x.1"].astype(np.complex64)}), "x.1 holds C64"),
    "complex target": (lambda held, meta: held.update({"target.0.value": held["target.0.value"].astype(np.complex64)}), "target.0.value holds C64"),
    "places that are no whole numbers": (
        lambda held, meta: held.update({"target.0.row": held["target.0.row"].astype(np.float64)}), "not whole ones"
    ),
    "weights of integers": (lambda held, meta: held.update({"w_k": held["w_k"].astype(np.int64)}), "not real ones"),
    "nan": (lambda held, meta: held.update({"x.0": held["x.0"] * np.nan}), "not finite"),
    "outside": (lambda held, meta: held.update({"target.0.col": held["target.0.col"] + 9}), "out of range"),
    "sum": (lambda held, meta: held.update({"target.0.value": held["target.0.value"] * 2}), "sum to one"),
    "no names": (lambda held, meta: meta.pop("patterns"), "'patterns'"),
    "wrong count": (lambda held, meta: meta.update({"patterns": "[]", "methods": "[]"}), "names 0"),
    "no request": (lambda held, meta: meta.update({"request": "{}"}), "request"),
    "a mask that is a number": (lambda held, meta: meta.update({"request": meta["request"].replace("false", "7")}), "no readable request"),
    "keys behind the mask": (lambda held, meta: meta.update({"request": meta["request"].replace("false", "true")}), "which its request masks"),
    "foreign": (lambda held, meta: meta.update({"format": "pt"}), "no fitted module"),
}  # fmt: skip


@cache
def two_patterns() -> Solution:
    return fit_patterns_by_all_methods(
        targets(patterns=("window:3", "previous")), ["learned"], FitRequest(d=1), [0]
    )


@pytest.mark.slow
@pytest.mark.parametrize("case", BROKEN)
def test_broken_files_are_refused_in_one_sentence(case: str, tmp_path: Path) -> None:
    solution = two_patterns()
    held, meta = (
        dict(collect_tensors_of_fits(solution.fits)),
        build_fit_metadata(solution.fits, solution.request),
    )
    spoil, says = BROKEN[case]
    spoil(held, meta)
    held = {name: np.ascontiguousarray(part) for name, part in held.items()}
    save_file(held, tmp_path / "fit.safetensors", meta)
    with pytest.raises(InputError, match=says) as refused:
        read_fits(tmp_path / "fit.safetensors")
    assert "\n" not in str(refused.value)


def test_files_that_are_none(tmp_path: Path) -> None:
    (tmp_path / "junk.safetensors").write_bytes(b"junk")
    for name in ("junk.safetensors", "missing.safetensors"):
        with pytest.raises(AttnError):
            read_fits(tmp_path / name)


@pytest.mark.slow
def test_sweep_finds_a_width_at_every_length_and_names_the_law() -> None:
    request = FitRequest(d=1, ratio_error=0.5, off_support=0.5, total_variation=0.9999)
    report = measure_width_growth_with_length(
        ["random:k=1"], ["jl", "cyclic"], [16, 32, 64, 128], request, [0, 1, 2], 256, build_pattern
    )
    rows = {
        (row.keys["length"], row.keys["fit"]): row for row in report.rows if row.metric == "d_min"
    }
    assert len(rows) == 8
    assert all(row.n == 3 for row in rows.values())
    assert rows[128, "random:k=1 jl"].value > rows[16, "random:k=1 jl"].value
    texts = {finding.about: finding.text for finding in report.findings}
    assert texts["random:k=1 cyclic"].startswith("width stays at 2. d = 2; AIC")
    best = {
        row.keys["law"]
        for row in report.rows
        if row.metric == "aic_above_best" and row.value == 0.0 and "jl" in str(row.keys["fit"])
    }
    assert best <= {"log", "power"}


def test_sweep_says_where_nothing_was_found() -> None:
    request = FitRequest(d=1, dtype="float32")
    report = measure_width_growth_with_length(
        ["window:5"], ["cyclic"], [64, 128, 256], request, [0], 16, build_pattern
    )
    widths = [row for row in report.rows if row.metric == "d_min"]
    assert all(row.value is None and row.note for row in widths)
    assert "0 of 3 lengths" in report.headline


@pytest.mark.slow
def test_frontier_falls_with_the_width() -> None:
    target = build_pattern("random:k=2", 48, np.random.default_rng(0))
    report = measure_logit_scale_by_width(
        "random:k=2", target, [4, 8, 16], FitRequest(d=1), [0], ("float64",)
    )
    scales = [row.value for row in report.rows if row.metric == "logit_scale"]
    assert None not in scales
    assert scales[0] > scales[1] > scales[2]
    assert report.warnings
    proved = [row.value for row in report.rows if row.metric == "logits_proved"]
    assert report.headline == (
        f"random:k=2, 48 tokens: in float64 logits to {format_number(scales[0])} at d = 4, {format_number(scales[2])} at d = 16 are "
        f"enough; proved: at least {format_number(proved[0])} at d = 4, {format_number(proved[2])} at d = 16."
    )


@pytest.mark.slow
def test_the_first_line_of_a_frontier_says_what_is_impossible() -> None:
    """Width 1 for pairs of far keys; a width at which nothing was found is not one that is enough."""
    target = build_pattern("random:k=2", 16, np.random.default_rng(0))
    report = measure_logit_scale_by_width(
        "random:k=2", target, [1, 6], FitRequest(d=1), [0], ("float64",)
    )
    assert (
        "at d = 6 are enough, nothing found at d = 1; proved: d = 1 is impossible, "
        in report.headline
    )


@pytest.mark.slow
def test_the_first_line_of_a_sweep_has_both_ends() -> None:
    request = FitRequest(d=1, dtype="float64")
    report = measure_width_growth_with_length(
        ["random:k=2"], ["auto"], [8, 16], request, [0], 16, build_pattern
    )
    widths = [row.value for row in report.rows if row.metric == "d_min"]
    assert report.headline == (
        "random:k=2: a width up to 16 was found at 2 of 2 lengths, too few for a growth law (it takes 4); "
        f"d = {widths[0]:.3g} at length 8, {widths[1]:.3g} at length 16."
    )


def test_thousands() -> None:
    assert [format_two_significant_digits(n) for n in (8, 97, 24_390, 9_565_409)] == [
        "8",
        "97",
        "24,000",
        "9,600,000",
    ]
