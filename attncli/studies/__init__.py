"""How each question is answered: source → observations → measures → Report. Nothing here prints.

statistics    means and standard deviations over seeds and texts, and what they separate
quantiles     standard errors of quantiles
reports       reports about reports: what moved between two, one number over many
nulls         what stands beside the numbers of heads: uniform attention, random weights, shuffled text
over_texts    the loop over texts, divided over processes
state_meters  metrics of states and of what blocks do to them, by name
trajectories  a synthetic network followed through its layers
circle        one layer applied again and again
known_digits  what rounding has left of a number
model_runs    variants of a model over texts
collapse      how fast attention loses rank
paths         how the output travels
heads         what each head does
training      what happens to attention while a model is trained
approximate   what one fixed module can show
"""

from collections.abc import Callable

Progress = Callable[[int, int, str], None]
"""Called as progress(done, total, what): how far a long piece of work is."""


def no_progress(done: int, total: int, what: str) -> None:
    """For callers that do not watch."""
