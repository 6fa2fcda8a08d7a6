"""Options of `attn inspect-model`: what is measured, on how much of a text, and against which controls."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from attncli.declare.option_declarations import WRITES, declare_option
from attncli.errors import UsageError
from attncli.options.head_selection import GROUPS, HeadOptions
from attncli.options.run_and_output import split_comma_separated_names
from attncli.options.value_completion import list_head_metrics, make_name_completer

if TYPE_CHECKING:
    from attncli.analysis.heads.model_inspection import HeadPlan


@dataclass(frozen=True)
class InspectionOptions:
    """What to measure of each head, besides the options of the model and its input."""

    metric: list[str] | None = declare_option(
        metavar="NAME,…",
        complete=make_name_completer(lambda: [*GROUPS, *list_head_metrics()]),
        usual=True,
        help=(
            "Metrics, or groups: attention, spectra, roles, copying, lazy, sinks, gates, memory, states, all. "
            "[default: those that decide the heads' roles]"
        ),
    )
    with_random_init: bool = declare_option(
        default=False,
        usual=True,
        help="Also report each number for the same architecture with random weights.",
    )
    with_shuffled_text: bool = declare_option(
        default=False, help="Also report each number for the same tokens in random order."
    )
    tokens: int | None = declare_option(
        metavar="N",
        of_any_model=True,
        help="Maximum length of a text in tokens, or length of random ones.",
    )
    save_maps: Path | None = declare_option(
        metavar="FILE.safetensors",
        usual=True,
        applies=WRITES,
        help="Save the first text's maps of the selected --layers and --heads.",
    )
    pairs: int | None = declare_option(
        metavar="N",
        usual=True,
        help="Each head's N strongest query ← key pairs, against uniform attention.",
    )
    strip_memory: int | None = declare_option(
        metavar="MIB",
        help="Memory limit for the strip of map rows processed at a time. [default: 64]",
    )
    seed: int = declare_option(
        default=0, help="Seed of random tokens, weights and shuffles. [default: 0]"
    )

    @property
    def metric_names(self) -> list[str]:
        return split_comma_separated_names(self.metric or [])

    def plan_head_measurements(self, heads: HeadOptions) -> "HeadPlan":
        from attncli.analysis.heads.head_selection import select_head_ranking
        from attncli.analysis.heads.metric_selection import choose_metrics
        from attncli.analysis.heads.model_inspection import HeadPlan

        metrics = choose_metrics(self.metric_names, self.pairs or 0)
        order = select_head_ranking(heads, metrics.heads)
        return HeadPlan(
            metrics,
            heads.choose_layers_to_measure(),
            heads.make_head_filter(),
            order,
            self.with_shuffled_text,
            self.seed,
            self.row_block_memory_in_bytes,
        )

    @property
    def row_block_memory_in_bytes(self) -> int:
        from attncli.capture import STRIP_MEMORY

        if self.strip_memory is None:
            return STRIP_MEMORY
        if self.strip_memory < 1:
            raise UsageError(f"`strip_memory={self.strip_memory!r}`: it must be at least 1 MiB.")
        return self.strip_memory * 2**20
