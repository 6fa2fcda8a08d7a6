"""The papers' small training experiments: `attn.reproduce.circle(width=32)`.

circle        one layer, applied again and again to its own output
memorise      what a few paths do alone, in networks that learned labels by heart
sort          the same in networks that sort
convex_hull   the same in networks that find the corners of a cloud of points
rank_heads    many narrow heads against few wide ones
"""

from typing import Any

from attncli.declare.command_table import COMMANDS, import_command_function

GROUP = "reproduce "
EXPERIMENTS = {
    path.removeprefix(GROUP).replace("-", "_"): path for path in COMMANDS if path.startswith(GROUP)
}

__all__ = list(EXPERIMENTS)


def __getattr__(name: str) -> Any:
    if name in EXPERIMENTS:
        from attncli.python.public_functions import make_public_function

        return make_public_function(import_command_function(EXPERIMENTS[name]), __name__)
    raise AttributeError(f"module 'attncli.reproduce' has no attribute '{name}'")


def __dir__() -> list[str]:
    return sorted(EXPERIMENTS)
