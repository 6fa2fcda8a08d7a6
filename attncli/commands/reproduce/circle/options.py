"""Options of `attn reproduce circle`."""

from dataclasses import dataclass

from attncli.commands.reproduce.options import task_option
from attncli.declare.option_declarations import Applies


@dataclass(frozen=True)
class CircleOptions:
    """Options of the layer that is trained and then applied again and again to its own output."""

    width: int | None = task_option(
        metavar="N", usual=True, help="Width of the layer. [default: 32, 64 and 128]"
    )
    sweep: str | None = task_option(
        metavar="width=FROM:TO",
        applies=Applies(excludes=("width",), why="{other} is what {name} varies: leave it out."),
        help="Several widths: doubling, or a list 32,64.",
    )
    recurrence: int | None = task_option(
        metavar="STEPS", usual=True, help="How many times the layer is applied. [default: 300]"
    )
    as_published: bool = task_option(
        default=False,
        usual=True,
        help=(
            "Follow the released script: the layer's skip always stays, 'skip' adds up all predictions, and "
            "dropout is on."
        ),
    )
