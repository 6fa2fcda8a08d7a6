"""The page put together: words and tables first, then the numbers, then the script that draws them.

Nothing in a page comes from elsewhere and nothing of it goes anywhere: the policy at its top allows this one script and
this one style by their hashes and forbids everything else, so that a token called <script> stays a token.
"""

import dataclasses
from collections.abc import Iterator
from typing import Any

from attncli import __version__
from attncli.analysis.controls import NULLS
from attncli.records import FOUND_KEYS, Report, View
from attncli.render._cells import grids
from attncli.render.page import pictures, prose
from attncli.render.page.assets import script, style
from attncli.render.page.both_reports import BOTH, compared, grid_of
from attncli.render.page.columns import columns
from attncli.render.page.packed import Store
from attncli.render.page.tables import plain, table_of, tag
from attncli.render.page.tiles import left_out, maps_of
from attncli.sanitize import visible

WITHOUT_SCRIPT = (
    "Pictures and the table of all numbers need JavaScript with DecompressionStream, as every browser has it since 2023; "
    "the tables below do not."
)


def document(report: Report) -> str:
    return "".join(
        (
            "<!doctype html>\n<html lang=en>\n<head>",
            head(report),
            "</head>\n<body>\n",
            *body(report),
            "</body>\n</html>\n",
        )
    )


def head(report: Report) -> str:
    policy = (
        f"default-src 'none'; script-src {script().allowed}; style-src {style().allowed}; "
        "base-uri 'none'; form-action 'none'"
    )
    return "".join(
        (
            "<meta charset=utf-8>",
            f'<meta http-equiv="Content-Security-Policy" content="{policy}">',
            '<meta name=viewport content="width=device-width, initial-scale=1">',
            '<meta name=color-scheme content="light dark">',
            f'<meta name=generator content="attn {plain(__version__)}">',
            tag("title", plain(prose.title(report))),
            f"<style>{style().text}</style>",
        )
    )


def body(report: Report) -> Iterator[str]:
    yield prose.opening(report)
    yield "<main>\n"
    yield tag("noscript", tag("p", WITHOUT_SCRIPT))
    yield "<p id=unread class=unread hidden role=alert></p>"
    yield prose.verdicts(report)
    yield prose.findings(report)
    yield prose.warnings(report)
    yield "<section id=heads hidden></section>\n"
    yield "<section id=maps hidden></section>\n"
    yield from sections(report)
    yield "<section id=all hidden></section>\n"
    yield prose.provenance(report)
    yield "</main>\n<div id=tip role=tooltip hidden></div>\n"
    yield f"<script type=application/gzip id=numbers>{numbers(report)}</script>\n"
    yield f"<script type=module>{script().text}</script>\n"


def sections(report: Report) -> Iterator[str]:
    """Numbers and tables of the views that are not said in words above."""
    for index, view in enumerate(pictures.views_of(report)):
        if view is BOTH:
            yield section(index, table_of(grid_of(next(compared(report)))))
            continue
        for grid in grids(dataclasses.replace(report, views=(view,))):
            if not view.findings:
                yield section(index, table_of(grid))


def section(index: int, table: str) -> str:
    return tag(
        "section",
        tag("div", class_="picture")
        + tag(
            "details",
            tag("summary", "As a table") + tag("div", table, class_="wide", tabindex=0),
            class_="numbers",
            open="",
        ),
        class_="view",
        data_view=index,
    )


def numbers(report: Report) -> str:
    """What the script reads."""
    store = Store()
    header = {
        "study": visible(report.study),
        "count": len(report.rows),
        "columns": store.add_all(columns(report)),
        "metrics": {
            visible(name): [visible(found.unit), visible(found.definition)]
            for name, found in report.metrics.items()
        },
        "nulls": NULLS,
        "found": sorted(FOUND_KEYS),
        "findings": [
            {"metric": finding.metric, "heads": list(map(visible, finding.heads))}
            for finding in report.findings
        ],
        "views": [view_of(report, view) for view in pictures.views_of(report)],
        "maps": maps_of(report, store),
        "left_out": left_out(report),
    }
    return store.text(header)


def view_of(report: Report, view: View) -> dict[str, Any]:
    kind = pictures.kind_of(report, view)
    found: dict[str, Any] = {
        "kind": kind,
        "title": visible(prose.capital(view.title)),
        "down": visible(view.down),
        "across": visible(view.across or ""),
        "metrics": list(map(visible, view.metrics)),
    }
    if kind == pictures.CURVES:
        found["panels"] = list(map(dataclasses.asdict, pictures.curves_of(report, view)))
    if kind == pictures.BOXES:
        found["boxes"] = pictures.boxes_in(report, view)
    return found
