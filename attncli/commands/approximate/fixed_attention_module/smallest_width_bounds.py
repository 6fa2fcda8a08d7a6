"""`attn approximate --decide`: a verified module, a proof that there is none, or bounds from both
sides."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from scipy.sparse import csr_array

from attncli.analysis.fits.fit_rows import build_fit_row
from attncli.errors import format_count
from attncli.fits._fit_request_and_module import FitRequest
from attncli.fits._width_search import FitAttempt, find_narrowest_fit
from attncli.fits.line import WidthOneResult, convert_fit_request_to_tolerances, fit_width_one
from attncli.maths.head_capacity.head_width_one.infeasibility_proof import WidthOneProof
from attncli.maths.head_capacity.head_width_one.logit_constraints import (
    compute_necessary_logit_constraints,
)
from attncli.maths.head_capacity.width_lower_bounds import (
    MOST_BOUNDED,
    LeastWidth,
    bound_largest_logit_at_width,
    bound_width_by_logit_budget,
    bound_width_by_planarity,
    bound_width_by_polytope_faces,
    bound_width_by_shattering,
)
from attncli.maths.number_format import format_number
from attncli.progress import Progress, ignore_progress
from attncli.records import (
    NOT_APPLICABLE,
    Definition,
    Finding,
    JsonObject,
    Report,
    Row,
    Verdict,
    View,
)

DECISION_METRICS = {
    "enough": Definition("0 or 1", "1: a verified module of this width (or of any that is tried) meets the request; 0: proved impossible; null: not decided."),
    "d_proved": Definition("features", "No module of a smaller width meets the request: proved for these limits, in exact arithmetic."),
    "d_found": Definition("features", "Width of the narrowest verified module."),
    "logit_scale": Definition("logit", "Its largest |logit|."),
    "logits_proved": Definition("logit", "No module of that width has smaller logits: proved, in exact arithmetic."),
    "line_d": Definition("features", "2 where width 1 is proved impossible for these limits (signs, order, a linear programme), else 1."),
    "shattered_d": Definition("features", "Keys that rows cut in every way, less one (Radon): at any logits, for these limits."),
    "budget_d": Definition("features", "Rows with keys of their own against the rank of a polynomial of the logits (after Alon), or, without a mask, ⟨L, W⟩² / (‖W‖₂² ‖L‖_F²): for logits up to `logit_budget`."),
    "face_d": Definition("features", "Longest chain of faces: only for exact in-row ratios (ε2 → 0) of rows with equal weights, no mask."),
    "planar_d": Definition("features", "4 where supports of two keys draw no planar graph: only for exact in-row ratios, no mask."),
}  # fmt: skip
NO_BUDGET = NOT_APPLICABLE + "no `logit_budget`, or no rows with keys of their own"
MASKED = NOT_APPLICABLE + "a mask, or too many tokens"
NARROW = "d = 1 is impossible: "
OPEN = "not decided: no module was found, and no proof"

VIEWS = (
    View("How wide it must be", "pattern", ("enough", "d_proved", "d_found", "logit_scale", "logits_proved")),
    View("Why not narrower", "pattern", ("line_d", "shattered_d", "budget_d")),
    View("If ratios were exact", "pattern", ("face_d", "planar_d")),
    View("In words", "pattern", (), findings="answer"),
)  # fmt: skip


@dataclass(frozen=True)
class WidthDecision:
    """Bounds on the width that one pattern needs."""

    pattern: str
    line: WidthOneResult
    cut: LeastWidth
    faces: LeastWidth | None
    """Bound from faces; None under a mask, as the edges are."""
    edges: LeastWidth | None
    budget_d: int
    """Budget of this width; 0: nothing is known."""
    attempt: FitAttempt | None
    """The narrowest module; None where the requested width is proved impossible."""
    logits: float
    """Lower bound on the logits at the width found."""
    width: int | None
    """The requested width."""

    @property
    def lower_bound_by_width_one_proof(self) -> int:
        return 2 if self.line.answer.possible is False else 1

    @property
    def proved_width_lower_bound(self) -> int:
        return max(self.lower_bound_by_width_one_proof, self.cut.d, self.budget_d)

    @property
    def smallest_width_found(self) -> int | None:
        met = self.attempt is not None and self.attempt.met and self.attempt.fit is not None
        return self.attempt.fit.d if met and self.attempt and self.attempt.fit else None

    @property
    def sufficient_width_indicator(self) -> float | None:
        if self.smallest_width_found is not None:
            return 1.0
        return (
            0.0 if self.width is not None and self.width < self.proved_width_lower_bound else None
        )


def report_smallest_head_widths(
    targets: Mapping[str, csr_array],
    request: FitRequest,
    width: int | None,
    widest: int,
    seeds: Sequence[int],
    progress: Progress = ignore_progress,
) -> Report:
    """Bounds first, then the search between them."""
    found: list[WidthDecision] = []
    for pattern, target in targets.items():
        progress(len(found), len(targets), "patterns")
        found.append(bound_smallest_head_width(pattern, target, request, width, widest, seeds))
    progress(len(targets), len(targets), "patterns")
    findings = [Finding(one.pattern, describe_smallest_width(one)) for one in found]
    return Report(
        study="approximate decide",
        headline="; ".join(f"{each.about}: {each.text}" for each in findings) + ".",
        rows=tuple(row for one in found for row in build_width_bound_rows(one)),
        metrics=DECISION_METRICS,
        source={
            "kind": "patterns",
            "request": request.describe_fit_request() | {"d": width},
            "proofs": {one.pattern: collect_width_proofs(one) for one in found},
        },
        input={"patterns": list(targets)},
        seeds=tuple(seeds),
        views=VIEWS,
        findings=tuple(findings),
        verdicts=tuple(
            Verdict(
                f"{one.pattern} fits",
                True,
                summarize_proved_width(one),
                stopped=one.sufficient_width_indicator is None,
            )
            for one in found
            if one.sufficient_width_indicator != 1.0
        ),
    )


def bound_smallest_head_width(
    pattern: str,
    target: csr_array,
    request: FitRequest,
    width: int | None,
    widest: int,
    seeds: Sequence[int],
) -> WidthDecision:
    line = fit_width_one(target, replace(request, d=1))
    nothing = LeastWidth(1)
    small = target.shape[0] <= MOST_BOUNDED
    constraints = compute_necessary_logit_constraints(
        target, request.causal, convert_fit_request_to_tolerances(request)
    )
    cut = bound_width_by_shattering(constraints) if small else nothing
    faces = bound_width_by_polytope_faces(constraints) if small and not request.causal else None
    edges = bound_width_by_planarity(constraints) if small and not request.causal else None
    limit = (
        bound_width_by_logit_budget(constraints, request.logit_budget, request.total_variation)
        if small
        else 0
    )
    known = WidthDecision(
        pattern, line, cut, faces, edges, budget_d=limit, attempt=None, logits=0.0, width=width
    )
    if width is not None and width < known.proved_width_lower_bound:
        return known
    ceiling = widest if width is None else width
    attempt = make_fit_attempt_of_width_one(line) or find_narrowest_fit(
        target, request, seeds, ceiling, impossible=known.proved_width_lower_bound - 1
    )
    d = attempt.fit.d if attempt.met and attempt.fit else known.proved_width_lower_bound
    logits = bound_largest_logit_at_width(constraints, d, request.total_variation) if small else 0.0
    logits = max(logits, line.answer.least) if d == 1 else logits
    return WidthDecision(
        pattern,
        line,
        cut,
        faces,
        edges,
        budget_d=limit,
        attempt=attempt,
        logits=logits,
        width=width,
    )


def make_fit_attempt_of_width_one(line: WidthOneResult) -> FitAttempt | None:
    """The module of width 1 that the decision has found: the search would find it again."""
    if line.module is None:
        return None
    return FitAttempt("line", line.module, line.evidence, True, 1, 1, tried_widths=(1, 1))


def build_width_bound_rows(one: WidthDecision) -> Iterator[Row]:
    logits = (
        one.attempt.largest_absolute_logit
        if one.attempt is not None and one.smallest_width_found is not None
        else None
    )
    values: dict[str, tuple[float | None, str]] = {
        "enough": (one.sufficient_width_indicator, OPEN),
        "d_proved": (one.proved_width_lower_bound, ""),
        "d_found": (one.smallest_width_found, explain_why_no_fit_was_found(one)),
        "logit_scale": (logits, explain_why_no_fit_was_found(one)),
        "logits_proved": (
            one.logits if one.smallest_width_found is not None else None,
            explain_why_no_fit_was_found(one),
        ),
        "line_d": (one.lower_bound_by_width_one_proof, ""),
        "shattered_d": (one.cut.d, ""),
        "budget_d": (one.budget_d or None, NO_BUDGET),
        "face_d": (one.faces.d if one.faces else None, MASKED),
        "planar_d": (one.edges.d if one.edges else None, MASKED),
    }
    for metric, (value, note) in values.items():
        unit = DECISION_METRICS[metric].unit
        yield build_fit_row(metric, value, unit, note or None, {"pattern": one.pattern})


def explain_why_no_fit_was_found(one: WidthDecision) -> str:
    if one.attempt is None:
        return NOT_APPLICABLE + "proved impossible"
    return one.attempt.reason or "not found"


def describe_smallest_width(one: WidthDecision) -> str:
    """The decision in a sentence, with its proof."""
    proof = describe_why_smaller_width_is_impossible(one)
    if one.sufficient_width_indicator == 0.0:
        return f"d = {one.width} is impossible: {proof.removeprefix(NARROW)}"
    if one.smallest_width_found is None:
        reason = one.attempt.reason if one.attempt is not None else ""
        return f"not decided: d ≥ {one.proved_width_lower_bound}{f' ({proof})' if proof else ''}; {reason}"
    logits = f"logits to {format_number(one.attempt.largest_absolute_logit)}" if one.attempt else ""
    proved = f", proved to be at least {format_number(one.logits)}" if one.logits else ""
    made = f"{one.attempt.method}, {logits}{proved}" if one.attempt else ""
    if one.smallest_width_found == one.proved_width_lower_bound:
        least = f"; {proof}" if proof else ""
        return f"d = {one.smallest_width_found} is enough ({made}) and is the least{least}"
    return f"{one.proved_width_lower_bound} ≤ d ≤ {one.smallest_width_found}: d = {one.smallest_width_found} works ({made}); {describe_undecided_widths(one, one.smallest_width_found)}"


def describe_undecided_widths(one: WidthDecision, width: int) -> str:
    """Describe the widths below the one found: `d = 1 is impossible, d = 2 is open`."""
    below, first, last = one.proved_width_lower_bound - 1, one.proved_width_lower_bound, width - 1
    impossible = f"d {'=' if below == 1 else '≤'} {below} is impossible, " if below else ""
    left = f"d = {first} is open" if first == last else f"d = {first} … {last} are open"
    faces = one.faces.d if one.faces else 1
    exact = f" (with exact ratios d ≥ {faces})" if faces > one.proved_width_lower_bound else ""
    return f"{impossible}{left}{exact}"


def summarize_proved_width(one: WidthDecision) -> str:
    return (
        f"not decided: d ≥ {one.proved_width_lower_bound} is all that is proved"
        if one.sufficient_width_indicator is None
        else f"d ≥ {one.proved_width_lower_bound} is proved"
    )


def describe_why_smaller_width_is_impossible(one: WidthDecision) -> str:
    """Describe the proof that a smaller width is impossible."""
    d = one.proved_width_lower_bound
    if d == 1:
        return ""
    if d == one.lower_bound_by_width_one_proof and one.line.answer.proof is not None:
        return f"{NARROW}{describe_width_one_contradiction(one.line.answer.proof)}"
    if d == one.cut.d:
        keys = ", ".join(map(str, one.cut.keys))
        return f"rows cut the keys {keys} in every way, which takes d = {d}"
    return f"logits up to the budget need d ≥ {d}"


def describe_width_one_contradiction(proof: WidthOneProof) -> str:
    """A contradiction of width 1 as a sentence."""
    rows = format_map_row_indices(proof.rows_in_proof)
    if proof.cases:
        return f"every choice of signs contradicts itself ({format_count(len(proof.cases), 'case')}, rows {rows})"
    if not proof.steps:
        if len(proof.rows_in_proof) == 2:
            return f"rows {rows} cross: some keys force their signs to be equal, others opposite"
        return f"rows {rows} force one another's signs, and go round in an odd circle"
    limit = "" if proof.budget is None else f" for logits up to {format_number(proof.budget)}"
    return f"{format_count(len(proof.steps), 'condition')} of rows {rows} add up to 0 < 0{limit}"


def format_map_row_indices(rows: Sequence[int]) -> str:
    shown = list(map(str, rows[:6]))
    if len(rows) > 6:
        return ", ".join(shown) + f" and {len(rows) - 6} more"
    return " and ".join([", ".join(shown[:-1]), shown[-1]]) if len(shown) > 1 else "".join(shown)


def collect_width_proofs(one: WidthDecision) -> JsonObject:
    """The numbers that a reader needs to check the proof."""
    answer = one.line.answer
    return {
        "width_1": answer.proof.convert_proof_to_json() if answer.proof is not None else None,
        "least_logits_at_width_1": answer.least_proof.convert_proof_to_json()
        if answer.least_proof
        else None,
        "shattered": {"keys": list(one.cut.keys), "rows": list(one.cut.rows)},
        "faces": [list(face) for face in one.faces.chain] if one.faces else [],
        "not_planar": list(one.edges.keys) if one.edges else [],
    }
