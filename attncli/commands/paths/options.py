"""Options of `attn paths` that say what is asked of the paths."""

from dataclasses import dataclass
from typing import Annotated

from attncli.declare.options import Option, rows_of_numbers
from attncli.errors import UsageError, it_or_them, parameters, said_of, unknown_name
from attncli.options.completion import complete_metric
from attncli.options.model import StackOption
from attncli.options.shared import separated

HEAD, STEPS = "head", "steps"
WAYS = (HEAD, STEPS)
"""What the output may be taken apart by."""

KINDS_OF_STEP = ("attention", "mlp")
"""What a path may take or leave out."""

MOST_SAMPLES = 100_000


@dataclass(frozen=True)
class PathOptions:
    """Which paths, and what of them."""

    metric: Annotated[
        list[str] | None,
        Option(
            metavar="NAME,…",
            complete=complete_metric,
            help="Metrics of each length's term (see `attn list metrics`). [default: log10_residual,stable_rank]",
        ),
    ] = None
    skip: Annotated[
        bool,
        Option(
            "--skip/--no-skip",
            help="With skip connections, or without: then every path has the full length.",
        ),
    ] = True
    path: Annotated[
        list[str] | None,
        Option(
            metavar="N,N,…",
            help="Measure one path: for each layer a head, counted from 1, or 0 for the skip. Repeatable.",
            in_words=rows_of_numbers,
        ),
    ] = None
    sample: Annotated[
        int | None,
        Option(
            metavar="N",
            usual=True,
            help="Sample N random paths of every length and report their quantiles.",
        ),
    ] = None
    by: Annotated[
        str | None,
        Option(
            metavar="head|steps",
            usual=True,
            help=(
                "Share of the output through each head and each skip, or (models only) by number of attention and MLP "
                "steps."
            ),
        ),
    ] = None
    steps: Annotated[
        list[str] | None,
        Option(
            metavar="attention,mlp",
            usual=True,
            help="What counts as a step of a model's paths. [default: attention]",
        ),
    ] = None
    loss: Annotated[
        bool,
        Option(
            "--loss", help="Loss of a next-token model when only paths up to each length are kept."
        ),
    ] = False
    stack: StackOption = None

    @property
    def of_single_paths(self) -> bool:
        """Rather than of all paths of a length."""
        return bool(self.path) or self.sample is not None or self.by is not None

    def kinds_of_step(self) -> tuple[str, ...]:
        names = tuple(dict.fromkeys(separated(self.steps or [KINDS_OF_STEP[0]])))
        for name in names:
            if name not in KINDS_OF_STEP:
                raise unknown_name("kind of step", name, KINDS_OF_STEP)
        return names

    def for_models(self) -> list[str]:
        """Names of given options that have no meaning for synthetic networks."""
        names = ("steps", "loss", "stack")
        return [name for name in names if getattr(self, name) not in (None, False, [])]

    def refuse_contradictions(self) -> None:
        """One question at a time, and nothing that its answer would not depend on."""
        asked = {"path": self.path, "by": self.by, "sample": self.sample is not None}
        given = [name for name, value in asked.items() if value]
        if len(given) > 1:
            raise UsageError(
                f"{parameters(given, ' and ')} are different questions: give one of them.",
                rivals=given,
            )
        if self.of_single_paths:
            self.refuse_what_is_of_lengths()

    def refuse_what_is_of_lengths(self) -> None:
        if self.by is not None and self.by not in WAYS:
            raise unknown_name("way to take the output apart, `by`", self.by, WAYS)
        names = [name for name in ("metric", "steps", "loss") if getattr(self, name)]
        if names:
            raise UsageError(
                f"{said_of(names, 'is', 'are')} about all paths of a length: leave {it_or_them(names)} out here.",
                idle=names,
                because=["path", "sample", "by"],
            )
        if self.sample is not None and not 1 <= self.sample <= MOST_SAMPLES:
            raise UsageError(f"`sample` must be from 1 to {MOST_SAMPLES:,}, not {self.sample}.")
