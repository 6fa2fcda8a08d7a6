"""Which metrics `attn inspect-model` measures: by name, by group, or the set that answers what the heads do."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from attncli.analysis.heads.classification import role_rules
from attncli.analysis.heads.classification.role_rules import DEFINITION, ROLE
from attncli.analysis.heads.report_rows.token_pair_and_completeness_definitions import (
    DEFINITIONS,
    PAIR,
)
from attncli.errors import UsageError, make_unknown_name_error
from attncli.metrics import METRICS
from attncli.metrics.activations import ACTIVATIONS
from attncli.metrics.attention import ATTENTION, HEAD_GROUPS
from attncli.metrics.weights import WEIGHTS
from attncli.options.head_selection import GROUPS
from attncli.records import Definition

DEFAULT_HEADS = (
    "entropy",
    "entropy_normalised",
    "effective_support",
    "sink",
    "sink_max",
    "virtual_sink",
    "self_attention",
    "distance",
    "previous_token",
    "duplicate_token",
    "induction",
    "offset_share",
    "head_contribution",
)
LINEAR_HEADS = ("memory_length", "negative_share")
"""Default metrics in addition, where layers are linear."""
DEFAULT_STATES = ("max_activation", "token_cosine_gap")
SLOW = ("log10_residual_optimal",)
"""Metrics that take seconds to minutes per state: measured only if named."""
MOST_PAIRS = 1000
"""Most pairs per head, so that memory stays small."""


@dataclass(frozen=True)
class MetricSelection:
    """The requested metrics, and whether roles are classified."""

    heads: tuple[str, ...]
    """Metrics of attention maps, in the requested order."""
    states: tuple[str, ...]
    roles: bool
    pairs: int = 0
    """How many of each head's strongest pairs of tokens are reported."""

    @property
    def repeated_token_metrics(self) -> tuple[str, ...]:
        """The metrics that need random tokens repeated twice."""
        return tuple(
            name for name in self.heads if ATTENTION.declaration_of_entry(name).group == "roles"
        )

    def add_linear_layer_metrics(self) -> "MetricSelection":
        """The default set where layers are linear too."""
        return replace(self, heads=(*self.heads, *LINEAR_HEADS))

    def generated_text_metrics(self) -> dict[str, tuple[str, ...]]:
        """The metrics of each kind of generated text."""
        kinds = dict.fromkeys(
            ATTENTION.declaration_of_entry(name).text
            for name in self.heads
            if ATTENTION.declaration_of_entry(name).text
        )
        return {
            kind: tuple(
                name for name in self.heads if ATTENTION.declaration_of_entry(name).text == kind
            )
            for kind in kinds
        }

    def metric_definitions(self) -> dict[str, Definition]:
        found = {name: ATTENTION.definition(name) for name in self.heads}
        found |= {
            name: (ACTIVATIONS if name in ACTIVATIONS.names() else METRICS).definition(name)
            for name in self.states
        }
        found |= {ROLE: DEFINITION} if self.roles else {}
        return found | ({PAIR: DEFINITIONS[PAIR]} if self.pairs else {})


def list_state_metrics() -> list[str]:
    return [*ACTIVATIONS.names(), *METRICS.names()]


def list_metrics_by_group() -> Mapping[str, list[str]]:
    """The metrics of every group."""
    by_group = {
        group: [
            name
            for name in ATTENTION.names()
            if ATTENTION.declaration_of_entry(name).group == group
        ]
        for group in HEAD_GROUPS
    }
    return {**by_group, "states": [name for name in list_state_metrics() if name not in SLOW]}


def choose_metrics(names: Iterable[str], pairs: int = 0) -> MetricSelection:
    """Expand names and groups of metrics; without names, the default set, with roles."""
    names = list(names)
    if not 0 <= pairs <= MOST_PAIRS:
        raise UsageError(f"`pairs={pairs}`: it must be from 1 to {MOST_PAIRS}.")
    if not names:
        return MetricSelection(DEFAULT_HEADS, DEFAULT_STATES, roles=True, pairs=pairs)
    heads: list[str] = []
    states: list[str] = []
    for name in names:
        for member in expand_metric_group(name):
            (states if member in list_state_metrics() else heads).append(member)
    needs_roles = bool({"roles", "all", ROLE} & set(names))
    names_but_role = [name for name in heads if name != ROLE]
    return MetricSelection(
        tuple(dict.fromkeys([*names_but_role, *(role_rules.MEASURED if needs_roles else ())])),
        tuple(dict.fromkeys(states)),
        needs_roles,
        pairs,
    )


def is_weight_metric(name: str) -> bool:
    """Whether the metric depends on a model's weights only, which no run and no map shows."""
    return name == "weights" or name in WEIGHTS.names()


def expand_metric_group(name: str) -> list[str]:
    groups = list_metrics_by_group()
    if name == "all":
        return [member for group in groups.values() for member in group]
    if is_weight_metric(name):
        raise UsageError(
            f"`metric={name!r}` measures weights and needs no run: ask `inspect_weights`.",
            about=["metric"],
        )
    if name in groups:
        return groups[name]
    known = [*ATTENTION.names(), *list_state_metrics(), ROLE]
    if name not in known:
        raise make_unknown_name_error("metric", name, [*known, *GROUPS])
    return [name]
