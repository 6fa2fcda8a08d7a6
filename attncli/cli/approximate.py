"""`attn approximate`"""

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from attncli.cli.groups import grouped
from attncli.cli.options import Option, OutputOptions, RunOptions, completion, separated
from attncli.errors import UsageError, unknown_name
from attncli.registry import Registry

if TYPE_CHECKING:
    import numpy as np
    from scipy.sparse import csr_array

    from attncli.fits import FitRequest
    from attncli.records import Report
    from attncli.studies import Progress

EXAMPLES = """
attn approximate                                             one random pattern, the narrowest module
attn approximate --pattern window:3 --pattern global:2+window:3 --length 128 -o fit.safetensors
attn approximate --verify fit.safetensors
attn approximate --pattern random:k=2 --method auto,cyclic,jl --dtype float32
attn approximate --pattern previous --sweep length=64:1024 --seeds 3
attn approximate --pattern random:k=2 --frontier 4:64
attn approximate --pattern permutation --sweep length=64:1024 --frontier 2,3,4,5,6,7,8 --method cyclic,certificate:keys=spread --total-variation 0.999
"""

DEFAULT_PATTERN, DEFAULT_LENGTH = "random:k=4,weights=dirichlet", 256
SCALE_METHODS = ("cyclic", "certificate:keys=spread", "learned")
"""Tried where the logit scale is asked for; the smallest counts."""

complete_pattern = completion(Registry("pattern", "attncli.patterns").names)
complete_method = completion(lambda: ["auto", *Registry("method", "attncli.fits").names()])


@dataclass(frozen=True)
class PatternOptions:
    """What is to be expressed."""

    pattern: Annotated[
        list[str],
        Option(
            metavar="NAME[:PARAMETERS]",
            autocompletion=complete_pattern,
            help="A pattern of `attn list patterns`, a sum such as global:2+window:3, or a file "
            f"(.npy .npz .mtx .csv .safetensors). Repeatable. [default: {DEFAULT_PATTERN}]",
        ),
    ] = field(default_factory=list)
    length: Annotated[
        int | None, Option(help=f"Tokens. [default: {DEFAULT_LENGTH}, or the file's]")
    ] = None
    causal: Annotated[bool, Option("--causal", help="Keys after the query are masked.")] = False

    def chosen(self) -> list[str]:
        return self.pattern or [DEFAULT_PATTERN]


@dataclass(frozen=True)
class SearchOptions:
    """How the module is made."""

    method: Annotated[
        list[str],
        Option(
            metavar="NAME[:PARAMETERS],…",
            autocompletion=complete_method,
            help="auto, or of `attn list methods`: cyclic, learned, convex, certificate, jl. [default: auto]",
        ),
    ] = field(default_factory=list)
    width: Annotated[
        int | None, Option(help="Query and key width d. [default: the smallest found]")
    ] = None
    find_width: Annotated[
        bool, Option("--find-width", help="Search the smallest width: the default without --width.")
    ] = False
    widest: Annotated[int, Option(help="Where a search gives up. [default: 512]")] = 512
    effort: Annotated[int, Option(help="How long `learned` goes on, 1 … 4. [default: 2]")] = 2


@dataclass(frozen=True)
class PrecisionOptions:
    """How exactly the rounded module must reproduce the pattern."""

    ratio_error: Annotated[
        float, Option(help="ε2: in-row ratios within a factor 1 + ε2. [default: 0.2]")
    ] = 0.2
    off_support: Annotated[
        float, Option(help="ε1: weights off the support, against those on it. [default: 0.2]")
    ] = 0.2
    total_variation: Annotated[float, Option(help="Of the worst row. [default: 0.01]")] = 0.01
    logit_budget: Annotated[float, Option(help="Largest |logit| allowed. [default: none]")] = float(
        "inf"
    )
    dtype: Annotated[
        str,
        Option(
            metavar="float64|float32|bfloat16",
            help="In which the module is evaluated. [default: float32]",
        ),
    ] = "float32"


@grouped
def approximate(
    *,
    sweep: Annotated[
        str | None,
        Option(
            metavar="length=FROM:TO", help="The smallest width against the length, and its law."
        ),
    ] = None,
    frontier: Annotated[
        str | None,
        Option(metavar="FROM:TO", help="The smallest logit scale at these widths, per dtype."),
    ] = None,
    verify: Annotated[
        Path | None, Option(metavar="FILE", help="Measure a saved fit again, and nothing else.")
    ] = None,
    timing: Annotated[
        bool, Option("--timing", help="Add CPU seconds, which differ from run to run.")
    ] = False,
    patterns: PatternOptions,
    search: SearchOptions,
    precision: PrecisionOptions,
    run: RunOptions,
    output: OutputOptions,
) -> int:
    """Can one fixed attention module produce these patterns by its inputs alone, how wide, at what logit scale?

    After "On the expressive power of self-attention matrices": softmax(X W_Q W_K^T X^T) with W_Q, W_K fixed by the
    width, only X knowing the pattern. Every fit is verified after rounding, by evaluating it again. With -o
    FILE.safetensors the module is written there and the report goes to stdout.
    """
    from attncli.cli.progress import progress_bar
    from attncli.cli.provenance import with_provenance
    from attncli.cli.writer import emit, prepare

    conditions = prepare(output)
    check_gates([condition.metric for condition in conditions])
    save = output.output if output.output and output.output.suffix == ".safetensors" else None
    if (verify and (sweep or frontier)) or (save and (verify or sweep or frontier)):
        raise UsageError(
            "--verify, -o FILE.safetensors, and --sweep or --frontier exclude each other: "
            "only a plain run makes one module to write."
        )
    if search.width is not None and (search.find_width or sweep or frontier):
        raise UsageError(
            "--width fixes what --find-width, --sweep and --frontier vary: leave it out."
        )
    with progress_bar(output.shows_progress) as progress:
        if verify is not None:
            report = verified(verify, progress)
        elif sweep is not None or frontier is not None:
            request = request_of(patterns, search, precision)
            report = varied(sweep, frontier, patterns, search, request, run, progress)
        else:
            request = request_of(patterns, search, precision)
            report = solved(patterns, search, request, run, save, timing, progress)
    return emit(
        with_provenance(report), replace(output, output=None) if save else output, conditions
    )


def check_gates(names: list[str]) -> None:
    """A gate on a number that no mode of this command has is refused before the work."""
    from attncli.studies.fit_rows import FIT_METRICS
    from attncli.studies.frontier import FRONTIER_METRICS
    from attncli.studies.scale_growth import SCALE_METRICS
    from attncli.studies.width_growth import GROWTH_METRICS

    known = (
        FIT_METRICS.keys() | GROWTH_METRICS.keys() | FRONTIER_METRICS.keys() | SCALE_METRICS.keys()
    )
    for name in names:
        if name not in known:
            raise unknown_name("metric in the gate", name, known)


def request_of(
    patterns: PatternOptions, search: SearchOptions, precision: PrecisionOptions
) -> "FitRequest":
    from dataclasses import asdict

    from attncli.fits import FitRequest

    if search.widest < 1:
        raise UsageError(f"--widest must be at least 1, not {search.widest}.")
    d = 1 if search.width is None else search.width
    return FitRequest(d=d, causal=patterns.causal, effort=search.effort, **asdict(precision))


def methods_of(search: SearchOptions) -> list[str]:
    """The methods asked for; parameters after a comma belong to the method before it."""
    from attncli.fits import FITS

    methods: list[str] = []
    for part in separated(search.method) or ["auto"]:
        if methods and "=" in part.partition(":")[0]:
            methods[-1] += f",{part}"
        else:
            methods.append(part)
    for method in methods:
        name = method.partition(":")[0]
        if name not in ("auto", *FITS.names()):
            raise unknown_name("method", name, ["auto", *FITS.names()])
    return list(dict.fromkeys(methods))


def targets_of(patterns: PatternOptions, seed: int) -> "dict[str, csr_array]":
    """Every pattern, from its own stream of the seed."""
    import numpy as np

    from attncli.patterns import build
    from attncli.patterns._files import is_file

    targets = {}
    for index, text in enumerate(patterns.chosen()):
        length = patterns.length
        if length is None and not is_file(text):
            length = DEFAULT_LENGTH
        targets[text] = build(text, length, np.random.default_rng([seed, index]), patterns.causal)
    return targets


def solved(
    patterns: PatternOptions,
    search: SearchOptions,
    request: "FitRequest",
    run: RunOptions,
    save: Path | None,
    timing: bool,
    progress: "Progress",
) -> "Report":
    from attncli.studies.approximate import approximate as report_of
    from attncli.studies.approximate import solve

    seeds = seeds_of(run)
    targets, methods = targets_of(patterns, seeds[0]), methods_of(search)
    searching = search.width is None
    solution = solve(
        targets, methods, request, seeds, search=searching, widest=search.widest, progress=progress
    )
    if save is not None:
        from attncli.cli.generate import save as save_tensors
        from attncli.fits._files import metadata, tensors

        if not solution.fits:
            raise UsageError(
                f"no method made a module to write to {save}: allow more width or another method."
            )
        save_tensors(save, tensors(solution.fits), metadata(solution.fits, solution.request))
    return report_of(solution, timing)


def seeds_of(run: RunOptions) -> list[int]:
    """Two seeds unless told otherwise: each one is a fresh draw of a method."""
    return replace(run, seeds=2 if run.seeds is None else run.seeds).all_seeds()


def varied(
    sweep: str | None,
    frontier: str | None,
    patterns: PatternOptions,
    search: SearchOptions,
    request: "FitRequest",
    run: RunOptions,
    progress: "Progress",
) -> "Report":
    """Over the length, over the width, or over both."""
    from attncli.cli.sweeps import parse_sweep
    from attncli.patterns import build
    from attncli.studies.frontier import frontier as frontier_study
    from attncli.studies.scale_growth import scale_growth
    from attncli.studies.width_growth import growth

    if sweep and patterns.length is not None:
        raise UsageError("--sweep length=… sets the length: leave --length out.")
    if frontier and len(patterns.chosen()) > 1:
        raise UsageError("--frontier takes one --pattern.")
    seeds, first = seeds_of(run), patterns.chosen()[0]
    lengths = [int(n) for n in parse_sweep(sweep, {"length": int})[1]] if sweep else []
    widths = [int(d) for d in parse_sweep(f"d={frontier}", {"d": int})[1]] if frontier else []

    def make(name: str, length: int, rng: "np.random.Generator") -> "csr_array":
        return build(name, length, rng, patterns.causal)

    if not widths:
        methods = methods_of(search)
        return growth(
            patterns.chosen(), methods, lengths, request, seeds, search.widest, make, progress
        )
    if not lengths:
        target = targets_of(patterns, seeds[0])[first]
        return frontier_study(first, target, widths, request, seeds, progress=progress)
    methods = methods_of(search) if search.method else list(SCALE_METHODS)
    return scale_growth(first, methods, widths, lengths, request, seeds, make, progress)


def verified(path: Path, progress: "Progress") -> "Report":
    from attncli.studies.verify_fit import verify_file

    return verify_file(path, progress)
