"""Where the work begins: all that can be refused without the model or the numbers is refused before it.

A command line can be rehearsed up to here, which shows what its defaults come to without running it.
"""


class Rehearsed(Exception):
    """A rehearsal has come to where the work would begin."""


class Stage:
    """Whether runs of this process stop before the work."""

    rehearsing = False


STAGE = Stage()


def before_the_work() -> None:
    """Called where all is refused that can be refused without the model or the numbers."""
    if STAGE.rehearsing:
        raise Rehearsed
