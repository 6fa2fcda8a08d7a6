"""What each question answers: source → observations → measures → Report. Nothing here prints.

collapse      how fast attention loses rank
circle        one layer applied again and again
heads         what each head does
training      what happens to attention while a model is trained
paths         how the output travels
approximate   what one fixed module can show
reports       what moved between reports
nulls         what stands beside the numbers of heads
statistics    means and spreads over seeds and texts
over_texts    texts, divided over processes
state_meters  metrics of states and of what blocks do to them, by name
trajectories  a network followed through its layers
model_runs    variants of a model over texts
"""

from collections.abc import Callable

Progress = Callable[[int, int, str], None]
"""Called as progress(done, total, what): how far a long piece of work is."""


def no_progress(done: int, total: int, what: str) -> None:
    """For callers that do not watch."""
