"""Gates: what fails a build. Report × conditions or baseline → verdicts → exit code; nothing here prints.

condition  := [aggregate(] metric [ '[' selector, … ']' ] [)] op number         one report, `--fail-if`
aggregate  := min | max | mean | any | all           (default any: one matching row is enough to fail)
op         := <  <=  >  >=  ==  !=

change     := [aggregate(] metric [ '[' selector, … ']' ] [)] : limit           against a baseline, `--fail-on`
limit      := [+|-] ( p share | number [% | s] )     (a sign fails one direction only; p: how often noise alone may fail
                                                     the gate, whatever the number of its values; s: standard deviations,
                                                     of the differences where both reports hold the same texts or seeds)

selector   := axis=value | axis=first:last | value    (a bare number is a layer, a bare word a variant)

log10_residual[variant=SAN+skip, layer=-1] < -3       layers count from the end when negative
mean(order[SAN, layer=5:12]) > 2.5                     both ends included
log10_residual:-0.5                                    fails where one fell by more than 0.5
sink:p.05                                              fails where noise alone moves none of them as far, but in 1 of 20 runs
mean(entropy):-p.05                                    the mean over all rows of each text, compared text by text
sink[head=3]:2s                                        fails where one text's change is 2 standard deviations on average

    >>> from attncli.records import Report, Row
    >>> sink = Row("sink", 0.7, "1", layer=0, head=1)
    >>> report = Report(study="inspect-model", headline="", rows=(sink,), metrics={}, source={})
    >>> from attncli.gates import decide_report_gates, parse_condition
    >>> [verdict] = decide_report_gates(report, [parse_condition("sink[layer=0] > 0.5")])
    >>> verdict.failed
    True
"""

from attncli.gates.conditions import (
    AGGREGATES,
    Condition,
    decide_report_gates,
    exit_code_of_report,
    parse_condition,
    refuse_gates_on_unmeasured_metrics,
    refuse_gates_that_match_no_row,
    worst_exit_code,
)
from attncli.gates.row_selection import parse_selection_and_aggregate, select_gated_rows

__all__ = [
    "AGGREGATES",
    "Condition",
    "decide_report_gates",
    "exit_code_of_report",
    "parse_condition",
    "parse_selection_and_aggregate",
    "refuse_gates_on_unmeasured_metrics",
    "refuse_gates_that_match_no_row",
    "select_gated_rows",
    "worst_exit_code",
]
