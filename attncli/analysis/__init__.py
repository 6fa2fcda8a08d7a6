"""What several questions, or a question and the training monitor, share. Nothing here prints.

statistics        means and standard deviations over seeds and texts, and what they separate
quantiles         standard errors of quantiles
controls          what stands beside the numbers of heads: uniform attention, random weights, shuffled text
texts             the loop over texts, divided over processes
fingerprint       all that decides a run's numbers, as one digest
network_sources   what each command takes as its SOURCE; from SOURCE and the network options to networks
fits              fits
states            states
prepare           from SOURCE and the model options to a study of a loaded model
paths             how the output travels
heads             what each head does
layer_maps        whole maps of a few layers at a time
weight_sources    whose weights they are
report_selection  part of a finished report: some of its metrics, its heads in the order of one of them. No model, no numpy
"""

from collections.abc import Callable

Progress = Callable[[int, int, str], None]
"""Called as progress(done, total, what): how far a long piece of work is."""

Say = Callable[[str], None]
"""Called with a sentence for a person."""


def ignore_progress(done: int, total: int, what: str) -> None:
    """For callers that do not watch."""
