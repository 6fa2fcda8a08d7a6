"""`attn verify-fit`"""

from pathlib import Path
from typing import Annotated

from attncli.declare.options import Argument, declare_option
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
    fit: Annotated[
        Path,
        Argument(
            metavar="FIT",
            help="A fitted module: what `attn approximate -o FIT.safetensors` has written.",
        ),
    ],
    allow_unmet: bool = declare_option(
        default=False, help="Exit with 0 although a pattern misses its request."
    ),
    how: RunContext,
) -> Report:
    """Does a saved fit still show its patterns, measured again from the file alone?

    Evaluates the module of the file on its inputs, row by row, and compares it with the patterns and the request that
    the file holds. The search that made the module is not run again.
    """
    from attncli.analysis.fits.fit_rows import FIT_METRICS
    from attncli.commands.verify_fit.run import measure_fit_file
    from attncli.gates import refuse_gates_on_unmeasured_metrics

    refuse_gates_on_unmeasured_metrics(how.conditions, FIT_METRICS)
    report = measure_fit_file(fit, how)
    return report.with_verdicts(()) if allow_unmet else report
