"""Part of a finished report: some of its metrics, its heads sorted by one of them. No model, no
numpy."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from attncli.analysis.means_and_confidence_intervals import describe_averaging
from attncli.errors import UsageError, require_known_names
from attncli.records import Report, Row, Scalar, View

ATTENTION = ("stack", "kind", "span")
"""Keys that distinguish attention layers of the same number."""

Place = tuple[object, ...]


@dataclass(frozen=True, slots=True)
class HeadOrder:
    """Heads by one metric."""

    metric: str
    rising: bool = False
    top: int | None = None
    """Number of heads to show; None: all."""


def select_report_rows(
    report: Report, metrics: Sequence[str], sort: str | None, top: int | None
) -> Report:
    """Select the report's rows of these metrics, with the heads sorted if requested."""
    if not metrics and sort is None and top is None:
        return report
    known = list(dict.fromkeys(row.metric for row in report.rows))
    require_known_names("metric of the report", metrics, known)
    order = choose_head_sort_order(report, metrics, sort, top)
    names = list(dict.fromkeys([*([order.metric] if order else []), *(metrics or known)]))
    rows = [row for row in report.rows if row.metric in names]
    return replace(
        report,
        rows=tuple(rows if order is None else sort_report_rows(rows, order)),
        metrics={name: each for name, each in report.metrics.items() if name in names},
        views=tuple(
            build_metric_views(report, names)
            if order is None
            else [build_head_table(report, order, names)]
        ),
    )


def choose_head_sort_order(
    report: Report, metrics: Sequence[str], sort: str | None, top: int | None
) -> HeadOrder | None:
    """Sort by the requested metric, else by the first metric of heads."""
    if sort is None and top is None:
        return None
    if top is not None and top < 1:
        raise UsageError(f"`top={top!r}`: it must be at least 1.")
    of_heads = list(dict.fromkeys(row.metric for row in report.rows if row.head is not None))
    if not of_heads:
        raise UsageError("`sort` and `top` order heads, and the report holds no number of one.")
    first = next((name for name in metrics if name in of_heads), "")
    if not (sort or first):
        raise UsageError(
            f"`top` needs a metric to order heads by: add one, as in `sort={of_heads[-1]!r}`."
        )
    name, _, way = (sort or first).partition(":")
    require_known_names("metric of heads in `sort`", [name], of_heads)
    if way not in ("", "rising"):
        raise UsageError(f"`sort={sort!r}`: write {name} or {name}:rising.")
    return HeadOrder(name, way == "rising", top)


def row_location_key(row: Row) -> Place:
    return (row.layer, row.head, *(row.keys.get(key) for key in ATTENTION))


def sort_report_rows(rows: Sequence[Row], order: HeadOrder) -> list[Row]:
    """Heads in their order; rows of layers and states come after."""
    values: dict[Place, float] = {}
    for row in rows:
        if row.metric == order.metric and row.head is not None and row.value is not None:
            if row_location_key(row) in values:
                raise UsageError(
                    f"`sort` needs one number of a head, and {order.metric} has several at {row.place}."
                )
            values[row_location_key(row)] = row.value
    best = sorted(values, key=values.__getitem__, reverse=not order.rising)[: order.top]
    rank = {each: index for index, each in enumerate(best)}
    heads = [row for row in rows if row.head is not None and row_location_key(row) in rank]
    rest = [row for row in rows if row.head is None]
    return [*sorted(heads, key=lambda row: rank[row_location_key(row)]), *rest]


def build_head_table(report: Report, order: HeadOrder, names: Iterable[str]) -> View:
    """One line for each head."""
    way = "rising" if order.rising else "falling"
    of_heads = {row.metric for row in report.rows if row.head is not None}
    columns = tuple(name for name in names if name in of_heads)
    return View(
        f"heads by {order.metric}, {way}{describe_row_averaging(report, columns)}",
        "layer.head",
        columns,
    )


def describe_row_averaging(report: Report, metrics: Iterable[str]) -> str:
    """`, mean ± standard deviation over 8 texts`, where some numbers are over several."""
    counts = {row.n for row in report.rows if row.metric in metrics} - {1}
    listed = report.input.get("texts")
    texts = len(listed) if isinstance(listed, list | tuple) else 0
    if not texts:
        return (
            describe_averaging(len(report.seeds), "seeds") if counts == {len(report.seeds)} else ""
        )
    words = [f"{texts} texts"] if texts > 1 else []
    words += [f"{count} draws of random tokens" for count in sorted(counts - {texts})]
    return f", mean ± standard deviation over {' or '.join(words)}" if words else ""


def build_metric_views(report: Report, names: Sequence[str]) -> Iterator[View]:
    """The report's own views of these metrics, and one for each metric that no view shows."""
    seen: set[str] = set()
    for view in report.views:
        shown = tuple(name for name in view.metrics if name in names)
        seen.update(shown)
        if shown:
            yield replace(view, metrics=shown)
    for name in names:
        if name not in seen:
            yield from build_views_of_metric(report, name)


def build_views_of_metric(report: Report, name: str) -> Iterator[View]:
    """Layers down, and across heads or variants."""
    rows = [row for row in report.rows if row.metric == name]
    title = f"{name}{describe_row_averaging(report, [name])}"
    across = "head" if any(row.head is not None for row in rows) else "variant"
    if all(row.axis(across) is None for row in rows):
        yield View(title, "layer", (name,))
        return
    for where in list_stacks_and_kinds_of_rows(rows):
        location = ", ".join(map(str, where.values()))
        yield View(f"{location}: {title}" if location else title, "layer", (name,), across, where)


def list_stacks_and_kinds_of_rows(rows: Iterable[Row]) -> list[dict[str, Scalar]]:
    """The stacks and kinds of attention, each with its layers."""
    found = ({key: row.keys[key] for key in ATTENTION[:2] if key in row.keys} for row in rows)
    return list({tuple(each.items()): each for each in found}.values())
