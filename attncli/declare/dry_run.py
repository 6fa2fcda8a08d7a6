"""Where loading a model begins: everything that can be refused without the model is refused before.

`--processes` runs a command up to here before it starts any process.
"""


class DryRunReached(Exception):
    """Raised in a dry run where the work would begin."""


class Stage:
    """Whether runs of this process stop before the work."""

    rehearsing = False


STAGE = Stage()


def before_the_work() -> None:
    """Called before a model is loaded whose texts can be divided among processes."""
    if STAGE.rehearsing:
        raise DryRunReached
