"""From strips to metrics: sums over the strips of one attention, then one number for each head."""

from collections.abc import Iterable, Mapping
from functools import cached_property
from math import inf
from typing import TYPE_CHECKING, Any

from attncli.metrics import MetricSpec
from attncli.metrics.attention import ATTENTION
from attncli.metrics.attention._row_block_of_maps import MapStripRows
from attncli.records import NOT_APPLICABLE
from attncli.tolerances import FULL_ROW

if TYPE_CHECKING:
    from torch import Tensor

    from attncli.metrics.attention._head_outputs import HeadOutputs

CUT_OFF = "weights have become 0 in the map's dtype: how far their logits are below is not known"

NO_SCORES = "the scores that its softmax was given were not seen"

NO_KEY = f"{NOT_APPLICABLE}no query sees such a key"

COLLECTED = ("columns", "offsets", "spectrum", "gram", "energy", "block", "sides", "gates")
"""Kinds of metrics of whole maps, whose strips are added up to an object of the type that the metrics take."""

ROW_KINDS = ("rows", "summaries")
"""Kinds of metrics with one number for each row."""

AS_APPLIED = frozenset({"spectrum", "gram", "energy", "block"})
"""Kinds that use a linear layer's signed map itself; all others use shares of |A|."""

Values = Mapping[str, "Tensor | str"]
"""Per metric [head] (or [head, …] under its axis) in float64; or the reason why there is no such number."""


class MetricTotals:
    """The sums that the requested metrics need of one attention of one text, added up strip by strip."""

    def __init__(
        self,
        names: Iterable[str],
        same_tokens: bool = True,
        signed: bool = False,
        linear: bool = False,
    ) -> None:
        self.functions = {name: ATTENTION[name] for name in names}
        self.same_tokens = same_tokens
        """Whether queries and keys are the same tokens, so that positions can be compared."""
        self.signed = signed
        """Whether weights have both signs: one map minus a share of another."""
        self.linear = linear
        """Whether weights are shares of |A| in a linear layer's map."""
        self.sums: dict[str, Any] = {}
        self.row_sums: tuple[Tensor, Tensor] | None = None
        """[batch, head]: the least sum of a row, and the largest."""
        self.full_row = FULL_ROW.tolerance_for_dtype()
        """How far below 1 a row may sum without a learned sink."""
        self.cut_off = False
        """Whether weights have become 0 whose logits are not known otherwise."""
        self.scored = True
        """Whether the scores of all strips were seen."""
        self.unseen = ""
        """Why the strips lack queries, keys and values; empty where they have them."""
        self.period: int | None = None
        self.made = False
        """Whether the text was generated for the metric, and its tokens are known."""
        self.others = False
        """Whether queries or keys are other than the tokens of that text: patches of them, or further tokens."""
        self.repeating = False
        """Whether all strips have come once, and come again for the spectrum alone."""

    @cached_property
    def collector_types(self) -> dict[str, type]:
        """The types of what is collected for the requested metrics, by their kinds."""
        specs = map(ATTENTION.declaration_of_entry, self.functions)
        return {spec.of: choose_collector_type(spec) for spec in specs if spec.of in COLLECTED}

    def accumulate_map_rows(self, rows: MapStripRows) -> None:
        """Add one strip; strips of a map come in order, each row once, and again where `needs_another_map_pass`."""
        if self.repeating:
            self.sums["spectrum"].accumulate_map_rows(rows.rows_with_signed_weights)
            return
        self.period = rows.period
        self.made = rows.ids is not None
        self.others = rows.ids is not None and not len(rows.ids) == rows.queries == rows.keys
        self.scored = self.scored and rows.scores is not None
        for name, metric in self.functions.items():
            if ATTENTION.declaration_of_entry(name).of in ROW_KINDS and self.is_metric_possible(
                name
            ):
                self.accumulate_metric_values_of_rows(name, metric(rows), rows)
        if any("logits" in ATTENTION.declaration_of_entry(name).needs for name in self.functions):
            self.cut_off = self.cut_off or rows.has_unknown_logits
        if "virtual_sink" in self.functions:
            self.record_row_sum_range(rows.row_sums)
        for kind in self.collector_types:
            self.accumulate_rows_by_kind(kind, rows)

    def record_row_sum_range(self, sums: "Tensor") -> None:
        """Add the sums of rows [batch, head, query]."""
        least, largest = sums.amin(dim=-1), sums.amax(dim=-1)
        if self.row_sums is not None:
            least, largest = least.minimum(self.row_sums[0]), largest.maximum(self.row_sums[1])
        self.row_sums = least, largest

    @property
    def least_row_sum(self) -> float:
        """The least row sum, except for heads without any weight."""
        least, largest = self.row_sums or (None, None)
        attending = [] if least is None or largest is None else least[largest > 0.0].tolist()
        return min(attending, default=1.0)

    def accumulate_rows_by_kind(self, kind: str, rows: MapStripRows) -> None:
        if kind == "sides":
            self.unseen = self.unseen or rows.explain_missing_query_key_value()
            if self.unseen:
                return
        applied = rows.rows_with_signed_weights if kind in AS_APPLIED else rows
        if kind not in self.sums:
            self.sums[kind] = self.collector_types[kind](applied)
        self.sums[kind].accumulate_map_rows(applied)

    def measure_head_outputs(self, outputs: "HeadOutputs") -> None:
        """Add the heads' outputs of the whole attention, after all strips."""
        self.sums["outputs"] = {
            name: metric(outputs)
            for name, metric in self.functions.items()
            if ATTENTION.declaration_of_entry(name).of == "outputs"
        }

    def measure_gates(self, gate: "Tensor", context: "Tensor", projection: "Tensor") -> None:
        """Add the gates of the whole attention, after all strips."""
        if "gates" not in self.sums:
            return
        items = self.sums["gates"].split_gates_by_batch_item(gate, context, projection)
        self.sums["gated"] = {
            name: context[:0].double().new_tensor([metric(each).tolist() for each in items])
            for name, metric in self.functions.items()
            if ATTENTION.declaration_of_entry(name).of == "gates"
        }

    def accumulate_metric_values_of_rows(
        self, name: str, values: "Tensor", rows: MapStripRows
    ) -> None:
        values = values.double()
        if ATTENTION.declaration_of_entry(name).take != "mean":
            self.sums.setdefault(name, []).append(
                (values, rows.keys_per_query.expand_as(values[:, :1]))
            )
            return
        counted = (~values.isnan()).sum(dim=-1)
        total, count = self.sums.get(name, (0.0, 0))
        self.sums[name] = total + values.nansum(dim=-1), count + counted

    def needs_another_map_pass(self) -> bool:
        """Whether all strips must come once more."""
        self.repeating = "spectrum" in self.sums and self.sums["spectrum"].needs_another_iteration()
        return self.repeating

    def compute_metric_values(self) -> dict[str, "Tensor | str"]:
        """Every requested metric, with batch items weighted equally, after all strips."""
        return {
            name: reduce_metric_over_batch(name, value)
            for name, value in self.compute_metric_values_per_item().items()
        }

    def compute_metric_values_per_item(self) -> dict[str, "Tensor | str"]:
        """Every requested metric as [item, head, …], after all strips."""
        return {name: self.compute_value_of_each_batch_item(name) for name in self.functions}

    def do_batch_items_lack_same_metrics(self, found: Values) -> bool:
        """Whether each batch item by itself lacks the same numbers as all together."""
        if not {CUT_OFF, NO_KEY}.isdisjoint(
            each for each in found.values() if isinstance(each, str)
        ):
            return False
        if self.row_sums is None or isinstance(found["virtual_sink"], str):
            return True
        least, largest = self.row_sums
        rows = least.masked_fill(largest == 0.0, 1.0).amin(dim=1)
        return bool((rows <= 1.0 - self.full_row).all())

    def find_singular_value_shortfall(self) -> "Tensor | None":
        """[head]: by what share singular values may be too small; None where none was requested."""
        if "spectrum" not in self.sums:
            return None
        found: Tensor = self.sums["spectrum"].short.amax(dim=0)
        return found

    def compute_value_of_each_batch_item(self, name: str) -> "Tensor | str":
        """[item, head, …], or why there is no such number."""
        reason = self.explain_undefined_metric(name) or self.explain_missing_input(name)
        if reason:
            return NOT_APPLICABLE + reason
        if not self.is_metric_possible(name):
            return NO_SCORES
        if "logits" in ATTENTION.declaration_of_entry(name).needs and self.cut_off:
            return CUT_OFF
        kind = ATTENTION.declaration_of_entry(name).of
        if kind == "outputs":
            applied: Tensor = self.sums[kind][name]
            return applied.double()
        if kind == "gates":
            through: Tensor = self.sums["gated"][name]
            return through
        if kind not in ROW_KINDS:
            found: Tensor = self.functions[name](self.sums[kind])
            return found.double()
        if ATTENTION.declaration_of_entry(name).take != "mean":
            return self.find_extreme_value_of_rows(name)
        total, count = self.sums[name]
        if not bool((count > 0).all()):
            return NO_KEY
        result: Tensor = total / count
        return result

    def find_extreme_value_of_rows(self, name: str) -> "Tensor | str":
        """[item, head]: the largest or least number of all rows that count."""
        largest = ATTENTION.declaration_of_entry(name).take == "max"
        rows: list[tuple[Tensor, Tensor]] = self.sums[name]
        most = rows[0][1].amax(dim=-1, keepdim=True)
        for _, seen in rows:
            most = most.maximum(seen.amax(dim=-1, keepdim=True))
        best: Tensor | None = None
        for values, seen in rows:
            few = 2 * seen < most if ATTENTION.declaration_of_entry(name).enough else values.isnan()
            values = values.masked_fill(few | values.isnan(), -inf if largest else inf)
            here = values.amax(dim=-1) if largest else values.amin(dim=-1)
            best = here if best is None else best.maximum(here) if largest else best.minimum(here)
        assert best is not None
        return best if bool(best.isfinite().all()) else NO_KEY

    def is_metric_possible(self, name: str) -> bool:
        """Whether the strips so far have what the metric needs."""
        return not self.explain_undefined_metric(name) and (
            self.scored or "scores" not in ATTENTION.declaration_of_entry(name).needs
        )

    def explain_undefined_metric(self, name: str) -> str:
        """Explain why a metric is undefined for this map, whatever its numbers; empty where it is defined."""
        needs = ATTENTION.declaration_of_entry(name).needs
        if self.signed and not ATTENTION.declaration_of_entry(name).signed:
            return "weights of both signs are no shares of attention"
        if self.linear and (
            reason := explain_metric_missing_in_linear_layer(ATTENTION.declaration_of_entry(name))
        ):
            return reason
        if "same tokens" in needs and not self.same_tokens:
            return "queries and keys are not the same tokens"
        if "repeats" in needs and self.period is None:
            return "only a text that repeats itself shows this"
        if "made text" in needs and not self.made:
            return "only texts of tokens that attn makes show this"
        if "made text" in needs and self.others:
            return "its queries and keys are not the tokens of the text, one for each"
        return ""

    def explain_missing_input(self, name: str) -> str:
        """Explain what a metric needs and the strips lack; empty where they have it."""
        needs = ATTENTION.declaration_of_entry(name).needs
        if "learned sink" in needs and self.least_row_sum > 1.0 - self.full_row:
            return "all rows sum to 1: there is no learned sink"
        if "outputs" in needs and "outputs" not in self.sums:
            return "what the heads write is not seen entering a linear layer as it is"
        if ATTENTION.declaration_of_entry(name).of == "gates" and "gated" not in self.sums:
            return "no sigmoid is seen that multiplies what the heads write"
        return self.unseen if ATTENTION.declaration_of_entry(name).of == "sides" else ""


def choose_collector_type(spec: MetricSpec) -> type:
    """The type that adds up strips for a metric: of its parameter, but gates are known only after all strips."""
    if spec.of == "gates":
        from attncli.metrics.attention._gate_statistics import SinkColumn

        return SinkColumn
    return spec.parameter_type


def explain_metric_missing_in_linear_layer(spec: MetricSpec) -> str:
    """Explain why a metric does not apply to a linear layer's map; empty where it does."""
    if {"scores", "logits"} & set(spec.needs):
        return "a linear layer has no softmax, so no logits"
    if "learned sink" in spec.needs:
        return "a linear layer has no softmax, so no learned sink"
    if spec.of == "outputs":
        return "what the heads of a linear layer give goes on through gates and norms"
    if spec.of == "sides":
        return "a linear layer weighs its values by more than queries and keys"
    if spec.of in AS_APPLIED and not spec.signed:
        return "the rows of a linear layer's map do not sum to 1"
    return ""


def split_metrics_by_batch_item(found: Values) -> list[dict[str, "Tensor | str"]]:
    """The metrics [item, head, …] of each batch item by itself; what is the same for all may be there once."""
    items = {
        name: [value] if isinstance(value, str) else value.unbind() for name, value in found.items()
    }
    return [
        {name: own[item] if len(own) > 1 else own[0] for name, own in items.items()}
        for item in range(max(map(len, items.values()), default=1))
    ]


def reduce_metric_over_batch(name: str, items: "Tensor | str") -> "Tensor | str":
    """Reduce to [head, …]: the mean over batch items, or the worst one."""
    if isinstance(items, str):
        return items
    take = ATTENTION.declaration_of_entry(name).take
    if take == "mean":
        return items.mean(dim=0)
    return items.amax(dim=0) if take == "max" else items.amin(dim=0)


def measure_maps(weights: "Tensor", names: Iterable[str], **how: Any) -> Values:
    """The metrics of whole maps [batch, head, query, key]."""
    totals = MetricTotals(names, how.pop("same_tokens", True), how.pop("signed", False))
    rows = MapStripRows(weights, **how)
    totals.accumulate_map_rows(rows)
    while totals.needs_another_map_pass():
        totals.accumulate_map_rows(rows)
    return totals.compute_metric_values()
