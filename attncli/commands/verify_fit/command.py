"""`attn verify-fit`"""

from pathlib import Path

from attncli.declare.option_declarations import declare_argument, declare_option
from attncli.python.questions import RunContext, question
from attncli.records import Report

EXAMPLES = """
attn verify-fit fit.safetensors
attn verify-fit fit.safetensors --format json -o verified.json
attn verify-fit fit.safetensors --fail-if 'total_variation > 0.01'
"""


@question()
def verify_fit(
    *,
    fit: Path = declare_argument(
        metavar="FIT",
        help="A fitted module: what `attn approximate -o FIT.safetensors` has written.",
    ),
    allow_unmet: bool = declare_option(
        default=False, help="Exit with 0 even if a pattern misses its request."
    ),
    how: RunContext,
) -> Report:
    """Does a saved fit still reproduce its patterns, measured again from the file alone?

    Evaluates the module of the file on its inputs, row by row, and compares it with the patterns and the request that
    the file holds. The search that made the module is not run again.
    """
    from attncli.analysis.fits.fit_rows import FIT_METRICS
    from attncli.analysis.fits.target_and_fitted_map_pictures import add_map_pictures_of_fits
    from attncli.analysis.source_argument_checks import refuse_files_of_wrong_kind
    from attncli.commands.verify_fit.report import measure_saved_fit_again
    from attncli.fits._fit_files import read_fits
    from attncli.gates import refuse_gates_on_unmeasured_metrics

    refuse_gates_on_unmeasured_metrics(how.conditions, FIT_METRICS)
    refuse_files_of_wrong_kind(str(fit), "verify_fit")
    report = measure_saved_fit_again(fit, how.progress)
    if how.pictures or how.maps:
        report = add_map_pictures_of_fits(report, read_fits(fit)[0])
    return report.with_verdicts(()) if allow_unmet else report
