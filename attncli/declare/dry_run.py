"""Where the work begins: everything that can be refused without the model or the numbers is refused
before.

A dry run of a command line ends here; it shows which settings apply without running the command.
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
