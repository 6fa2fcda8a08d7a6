"""Reports made by hand and by hypothesis."""

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

from hypothesis import strategies as st

from attncli.records import Definition, Finding, Report, Row, Scalar, Verdict, View

VARIANTS = ("SAN", "SAN+skip", "transformer")

HAND_MADE = Report(
    study="example",
    headline="SAN: log10 r = -171,507 at layer 1.",
    rows=(
        Row("log10_residual", -0.0049, "log10", "SAN", 0, spread=0.0026, n=5),
        Row("log10_residual", -171507.25, "log10", "SAN", 1, spread=2796.5, n=5),
        Row("log10_residual", 0.5, "log10", 'a|b, "c"', 0, n=1),
        Row("log10_residual", None, "log10", 'a|b, "c"', 1, n=5, note="zero, or beyond"),
        Row("entropy", 1.25, "nat", layer=0, head=3, keys={"tokens": 16}),
    ),
    metrics={
        "log10_residual": Definition("log10", "How far from rank 1."),
        "entropy": Definition("nat", "How even."),
    },
    source={"kind": "synthetic"},
    input={"tokens": 16},
    seeds=(0, 1, 2, 3, 4),
    views=(
        View("log10_residual after each layer", "layer", ("log10_residual",), across="variant"),
        View("By variant", "variant", ("log10_residual",), last_layer_only=True),
        View("By words", "variant", (), findings="regime"),
        View("Nothing to see", "head", ("log10_residual",)),
    ),
    findings=(Finding("SAN", "cubic: doubly exponential"),),
    warnings=("only an example",),
    verdicts=(
        Verdict("log10_residual < -3", True, "1 of 3 values; SAN, layer 1: -171507"),
        Verdict("entropy < 1", False, "0 of 1 value; layer 0, head 3, tokens 16: 1.25"),
    ),
    command=("attn", "example"),
    environment={"python": "3"},
)

finite = st.floats(allow_nan=False, allow_infinity=False)
words = st.text(
    st.characters(exclude_categories=["Cs", "Cc"]) | st.sampled_from("|,\"'[]*_`\n\t:"), max_size=12
)
names = st.sampled_from(("log10_residual", "order", "entropy"))


def row(
    metric: str,
    value: float | None,
    spread: float | None,
    note: str,
    **coordinates: Any,
) -> Row:
    """As studies make them: a spread beside a value only, a note beside a null only."""
    if value is None:
        return Row(metric, None, "1", note=note, **coordinates)
    each = (value, value) if spread == 0.0 else ()
    return Row(metric, value, "1", spread=spread, each=each, **coordinates)


def rows(
    values: st.SearchStrategy[float] = finite, text: st.SearchStrategy[str] = words
) -> st.SearchStrategy[Row]:
    """Any row that a study could make."""
    keys: st.SearchStrategy[dict[str, Scalar]] = st.fixed_dictionaries(
        {}, optional={"tokens": st.integers(1, 4), "pattern": text, "init-scale": st.floats(0.5, 2)}
    )
    return st.builds(
        row,
        metric=names,
        value=st.none() | values,
        spread=st.none() | values.map(abs),
        note=text,
        variant=st.none() | st.sampled_from(VARIANTS),
        layer=st.none() | st.integers(0, 4),
        head=st.none() | st.integers(0, 2),
        n=st.integers(1, 9),
        keys=keys,
    )


views = st.builds(
    View,
    title=words,
    down=st.sampled_from(("layer", "variant", "head", "tokens", "pattern")),
    metrics=st.lists(names, min_size=1, max_size=3, unique=True).map(tuple),
    across=st.none() | st.sampled_from(("variant", "layer", "tokens")),
    where=st.just({}) | st.just({"variant": "SAN"}),
    last_layer_only=st.booleans(),
    findings=st.sampled_from(["", "regime"]),
)

verdicts = st.builds(Verdict, words, st.booleans(), words) | st.builds(
    Verdict, words, st.just(True), words, st.booleans()
)

reports: st.SearchStrategy[Report] = st.builds(
    Report,
    study=words,
    headline=words,
    rows=st.lists(rows(), max_size=12).map(tuple),
    metrics=st.just({"order": Definition("1", "p")}),
    source=st.just({"kind": "synthetic"}),
    seeds=st.lists(st.integers(0, 9), max_size=3).map(tuple),
    views=st.lists(views, max_size=3).map(tuple),
    findings=st.lists(st.builds(Finding, st.sampled_from(VARIANTS), words), max_size=2).map(tuple),
    warnings=st.lists(words, max_size=2).map(tuple),
    verdicts=st.lists(verdicts, max_size=2).map(tuple),
)


def texts_in(value: Any) -> Iterator[str]:
    """Every text in it."""
    if isinstance(value, str):
        yield value
    elif dataclasses.is_dataclass(value):
        yield from texts_in([getattr(value, field.name) for field in dataclasses.fields(value)])
    elif isinstance(value, Mapping):
        yield from texts_in([*value, *value.values()])
    elif isinstance(value, list | tuple):
        for each in value:
            yield from texts_in(each)


def renamed(value: Any, old: str, new: str) -> Any:
    """The same with another text wherever this one stands."""
    if isinstance(value, str):
        return new if value == old else value
    if dataclasses.is_dataclass(value):
        names = [field.name for field in dataclasses.fields(value)]
        parts = {name: renamed(getattr(value, name), old, new) for name in names}
        return dataclasses.replace(value, **parts)  # type: ignore[type-var]
    if isinstance(value, Mapping):
        return {renamed(n, old, new): renamed(held, old, new) for n, held in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(renamed(each, old, new) for each in value)
    return value
