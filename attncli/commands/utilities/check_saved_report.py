"""`attn check`"""

from attncli.cli.typer_options import flatten_option_groups
from attncli.declare.option_declarations import declare_argument
from attncli.options.report_row_selection import RowOptions
from attncli.options.run_and_output import OutputOptions, split_comma_separated_names
from attncli.python.baselines import BaselineOptions

EXAMPLES = """
attn check report.json --fail-if 'log10_residual[transformer, layer=-1] < -3'
attn check new.json --baseline main.json --fail-on 'sink:p.05' --format github
attn check heads.json --sort induction --top 10             # the heads with the highest score
attn rank-collapse --format json | attn check - --format junit -o gates.xml
"""


@flatten_option_groups
def check(
    *,
    source: str = declare_argument(
        metavar="REPORT", help="A saved JSON report, or its address (s3://…); - reads stdin."
    ),
    rows: RowOptions,
    baseline: BaselineOptions,
    output: OutputOptions,
) -> int:
    """Does a saved report pass these gates, and has it moved away from an earlier one?

    Needs no model. Without gates, the verdicts saved in the report set the exit code.
    """
    from attncli.analysis.report_row_selection import select_report_rows
    from attncli.analysis.source_argument_checks import read_report_argument
    from attncli.cli.report_writer import validate_output_options, write_report

    conditions = validate_output_options(output)
    old = baseline.read_baseline_report()
    report = read_report_argument(source, "check")
    verdicts = baseline.decide_report_and_baseline_gates(report, conditions, old)
    metrics = list(dict.fromkeys(split_comma_separated_names(rows.metric)))
    shown = select_report_rows(report, metrics, rows.sort, rows.top)
    return write_report(shown.with_verdicts(verdicts) if verdicts else shown, output)
