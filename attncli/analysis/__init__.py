"""Analyses that several questions, or a question and the training monitor, share. Nothing here
prints.

means_and_confidence_intervals  means and standard deviations over seeds and texts, and significance
bootstrap_quantile_errors       standard errors of quantiles
distributed_text_loop           the loop over texts, distributed over processes
run_fingerprint                 everything that determines a run's numbers, as one digest
source_argument_checks          the SOURCE of each command, the kinds that it takes, and what a report says of networks
rank_collapse                   states of the residual stream over layers
weight_sources                  weights of a saved or an in-memory model
report_row_selection            part of a finished report: some of its metrics, its heads sorted by one of them
verification_inputs             the input on which a model is verified: an example, or a caller's own parts
load_and_verify_model           one preparation of a model for every question
fits                            fits of modules to patterns
paths                           decomposition of the output by paths
heads                           measurements of every head
collect_whole_maps_by_layer     whole maps of a few layers at a time

    >>> from attncli.analysis.means_and_confidence_intervals import summarize_values
    >>> row = summarize_values("sink", "1", [0.25, 0.75], "", layer=0, head=1)
    >>> row.value, row.n
    (0.5, 2)
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from attncli.progress import Progress

if TYPE_CHECKING:
    from attncli.records import Report


class Study(Protocol):
    """A question whose options are settled and whose source is loaded: measuring is all that is left."""

    def __call__(self, *, progress: Progress) -> "Report": ...


class MetricStudy(Protocol):
    """The same, of metrics that are chosen when it is called."""

    def __call__(self, *, metrics: Sequence[str], progress: Progress) -> "Report": ...
