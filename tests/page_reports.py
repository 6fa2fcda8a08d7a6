"""Reports for pages, made by hand: heads of several sizes, curves with everything that curves can have."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

from attncli.records import (
    Definition,
    Finding,
    MapPicture,
    MapThumbnail,
    Report,
    Row,
    Verdict,
    View,
)

HOSTILE = "<script>alert(1)</script></script><!--\u202e\x1b[2J'\"&`{{7*7}}"


def share(layer: int, head: int, salt: int = 0) -> float:
    """A number from 0 to 1 that differs from head to head."""
    return math.modf(
        abs(math.sin(1.0 + 12.9898 * layer + 78.233 * head + 37.719 * salt)) * 43758.5453
    )[0]


def head_rows(layers: int, heads: int, metrics: Sequence[str]) -> Iterator[Row]:
    for salt, metric in enumerate(metrics):
        for layer in range(layers):
            for head in range(heads):
                nulls = {"uniform": 1.0 / (layer + 2), "random_init": share(head, layer, salt)}
                yield Row(metric, share(layer, head, salt), "1", layer=layer, head=head, keys=nulls)


def role_rows(layers: int, heads: int) -> Iterator[Row]:
    for layer in range(layers):
        for head in range(heads):
            value = share(layer, head)
            role, mark = ("sink", "S") if value > 0.6 else ("mixed", "·")
            clear = value if role == "sink" else None
            note = None if role == "sink" else "n/a: no role is clear"
            keys = {"role": role, "mark": mark}
            yield Row("role", clear, "1", layer=layer, head=head, note=note, keys=keys)


def strongest(layers: int, heads: int) -> tuple[int, int]:
    places = [(layer, head) for layer in range(layers) for head in range(heads)]
    return max(places, key=lambda place: share(*place))


def of_heads(
    layers: int = 4, heads: int = 3, metrics: Sequence[str] = ("sink", "entropy")
) -> Report:
    """As `inspect-model` makes it: roles, metrics with two nulls, offsets, states, a finding."""
    layer, head = strongest(layers, heads)
    name = f"{layer}.{head}"
    offsets = (
        Row("offset_profile", 0.5 / (1 + r), "1", layer=layer, head=head, keys={"offset": r, "uniform": 0.1})
        for r in range(4)
    )  # fmt: skip
    states = (
        Row("token_cosine_gap", 1.0 / (1 + each), "1", layer=each) for each in range(layers + 1)
    )
    return Report(
        study="inspect-model",
        headline=f"model: {layers} attention layers.",
        rows=(*role_rows(layers, heads), *head_rows(layers, heads, metrics), *offsets, *states),
        metrics={
            "role": Definition("1", "What a head does."),
            **{each: Definition("1", f"What {each} is.") for each in metrics},
            "offset_profile": Definition("1", "Weight by offset."),
            "token_cosine_gap": Definition("1", "1 - cosine."),
        },
        source={"kind": "folder", "path": "/models/model"},
        views=(
            View("S sink  · mixed", "layer", ("role",), "head", heat="mark"),
            View("what stands out", "about", (), findings="finding"),
        ),
        findings=(
            Finding("sinks", f"strongest {name} ({share(layer, head):.2f})", "sink", (name,)),
        ),
        command=("attn", "inspect-model", "/models/model"),
    )


def of_curves() -> Report:
    """Three variants over layers, two of them with spreads, one that is lost at the end; a bound, a level, a floor."""
    rows = []
    for variant, base in (("SAN", 3.0), ("SAN+skip", 1.1)):
        for layer in range(6):
            value = -(base**layer)
            rows.append(Row("log10_residual", value, "log10", variant, layer, spread=0.1, n=5))
            rows.append(Row("log10_residual_norm", value, "log10", variant, layer))
            rows.append(Row("log10_bound", value + 5.0, "log10", variant, layer))
    for layer in range(5):
        keys = {"uncertainty": 0.9 * layer} if layer == 4 else {}
        rows.append(Row("log10_residual", -float(layer), "log10", "float64", layer, keys=keys))
    rows.append(Row("log10_residual", None, "log10", "float64", 5, note="not known in float64"))
    rows.append(Row("log10_residual", -7.0, "log10", "floor"))
    names = ("log10_residual", "log10_residual_norm", "log10_bound")
    return Report(
        study="rank-collapse",
        headline="SAN collapses.",
        rows=tuple(rows),
        metrics={name: Definition("log10", f"What {name} is.") for name in names},
        source={"kind": "synthetic"},
        views=(View("after each layer", "layer", ("log10_residual",), across="variant"),),
    )


def of_words() -> Report:
    words = ("[CLS]", "the", "quick", HOSTILE, "fox")
    rows = (
        Row("attribution_share", (place - 2) * 0.3, "1", variant="token 4 fox", keys={"position": place, "word": word})
        for place, word in enumerate(words)
    )  # fmt: skip
    return Report(
        study="inspect-model",
        headline="Token 4 fox after 2 blocks.",
        rows=tuple(rows),
        metrics={"attribution_share": Definition("1", "A share.")},
        source={"kind": "folder"},
        views=(View("input tokens", "position", ("attribution_share",), names="word"),),
    )


def of_gates() -> Report:
    return Report(
        study="ci",
        headline="1 of 2 checks passed; failed: b.",
        rows=tuple(Row("exit_code", code, "exit code", keys={"check": name}) for name, code in (("a", 0), ("b", 1))),
        metrics={"exit_code": Definition("exit code", "What it ends with.")},
        source={"kind": "checks"},
        views=(View("Checks", "check", ("exit_code",)),),
        verdicts=(
            Verdict("a: sink < 1", False, "0 of 72 values"),
            Verdict("b: log10_residual < -3", True, "1 of 3 values"),
        ),
    )  # fmt: skip


def of_maps() -> Report:
    target = ((1.0, 0.0, 0.0), (0.5, 0.5, 0.0), (0.2, 0.3, 0.5))
    error = ((0.01, 0.0, 0.0), (0.0, 0.02, 0.0), (0.0, 0.0, 0.04))
    return Report(
        study="approximate",
        headline="d = 2 is enough.",
        rows=(Row("d", 2, "features", keys={"fit": "previous cyclic"}),),
        metrics={"d": Definition("features", "Width.")},
        source={"kind": "patterns"},
        views=(View("Fits", "fit", ("d",)),),
        pictures=(MapPicture("previous cyclic", {"target": target, "achieved": target, "error": error}),),
    )  # fmt: skip


def of_tiles() -> Report:
    """Head 0.1 with its map over three tokens, one of them hostile, and its strongest pair in words."""
    words = ("[CLS]", HOSTILE, "fox")
    cells = bytes([255, 0, 0, 128, 127, 0, 51, 0, 204])
    keys = {
        "rank": 1,
        "query": 2,
        "key": 0,
        "query_token": "fox",
        "key_token": "[CLS]",
        "uniform": 0.25,
    }
    pair = Row("token_pair", 0.75, "1", layer=0, head=1, keys=keys)
    report = of_heads(1, 2)
    tile = MapThumbnail("0.1", 3, 3, cells, 1.0, 1, words, words)
    return replace(report, rows=(*report.rows, pair), tiles=(tile,))
