"""Where loading a model begins: everything that can be refused without the model is refused before.

`--processes` runs a command up to here before it starts any process.
"""


class DryRunReached(Exception):
    """Raised in a dry run where the work would begin."""


class DryRunState:
    """Whether runs of this process stop before the work."""

    rehearsing = False


STAGE = DryRunState()


def stop_dry_run_before_model_load() -> None:
    """Called before a model is loaded whose texts can be divided among processes."""
    if STAGE.rehearsing:
        raise DryRunReached
