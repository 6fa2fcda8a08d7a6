"""Assemble the page: sentences and tables first, then the numbers, then the script that draws them.

A page loads nothing and sends nothing: the policy at its top allows this script and this style by
their hashes and forbids everything else, so that a token called <script> stays a token.
"""

import dataclasses
from collections.abc import Iterator

from attncli import __version__
from attncli.records import FOUND_KEYS, NULLS, JsonObject, Report, View
from attncli.render._table_cells import build_table_grids
from attncli.render.html_page import page_sentences, plot_data_of_views
from attncli.render.html_page.assets import load_script, load_style
from attncli.render.html_page.columns_as_bytes import encode_report_columns
from attncli.render.html_page.comparison_curves import (
    BOTH,
    build_comparison_curves,
    build_comparison_table,
)
from attncli.render.html_page.embedded_data import ColumnStore
from attncli.render.html_page.head_map_thumbnails import count_omitted_maps, encode_attention_maps
from attncli.render.html_page.html_tables import escape_text, format_table, html_tag

WITHOUT_SCRIPT = (
    "Pictures and the table of all numbers need JavaScript with DecompressionStream, as every browser has it since 2023; "
    "the tables below do not."
)


def build_html_page(report: Report) -> str:
    return "".join(
        (
            "<!doctype html>\n<html lang=en>\n<head>",
            build_html_head(report),
            "</head>\n<body>\n",
            *build_html_body(report),
            "</body>\n</html>\n",
        )
    )


def build_html_head(report: Report) -> str:
    policy = (
        f"default-src 'none'; script-src {load_script().csp_hash}; style-src {load_style().csp_hash}; "
        "base-uri 'none'; form-action 'none'"
    )
    return "".join(
        (
            "<meta charset=utf-8>",
            f'<meta http-equiv="Content-Security-Policy" content="{policy}">',
            '<meta name=viewport content="width=device-width, initial-scale=1">',
            '<meta name=color-scheme content="light dark">',
            f'<meta name=generator content="attn {escape_text(__version__)}">',
            html_tag("title", escape_text(page_sentences.format_page_title(report))),
            f"<style>{load_style().text}</style>",
        )
    )


def build_html_body(report: Report) -> Iterator[str]:
    yield page_sentences.format_page_header(report)
    yield "<main>\n"
    yield html_tag("noscript", html_tag("p", WITHOUT_SCRIPT))
    yield "<p id=unread class=unread hidden role=alert></p>"
    yield page_sentences.format_gate_verdicts(report)
    yield page_sentences.format_findings(report)
    yield page_sentences.format_warnings(report)
    yield "<section id=heads hidden></section>\n"
    yield "<section id=maps hidden></section>\n"
    yield from build_view_sections(report)
    yield "<section id=all hidden></section>\n"
    yield page_sentences.format_provenance(report)
    yield "</main>\n<div id=tip role=tooltip hidden></div>\n"
    yield f"<script type=application/gzip id=numbers>{encode_report_for_script(report)}</script>\n"
    yield f"<script type=module>{load_script().text}</script>\n"


def build_view_sections(report: Report) -> Iterator[str]:
    """Numbers and tables of the views that are not in the sentences already."""
    for index, view in enumerate(plot_data_of_views.list_report_and_layer_views(report)):
        if view is BOTH:
            yield build_view_section(
                index, format_table(build_comparison_table(next(build_comparison_curves(report))))
            )
            continue
        for grid in build_table_grids(dataclasses.replace(report, views=(view,))):
            if not view.findings:
                yield build_view_section(index, format_table(grid))


def build_view_section(index: int, table: str) -> str:
    return html_tag(
        "section",
        html_tag("div", class_="picture")
        + html_tag(
            "details",
            html_tag("summary", "As a table") + html_tag("div", table, class_="wide", tabindex=0),
            class_="numbers",
            open="",
        ),
        class_="view",
        data_view=index,
    )


def encode_report_for_script(report: Report) -> str:
    """Pack the data of the script."""
    store = ColumnStore()
    header = {
        "study": report.study,
        "count": len(report.rows),
        "columns": store.append_encoded_columns(encode_report_columns(report)),
        "metrics": {name: [found.unit, found.definition] for name, found in report.metrics.items()},
        "nulls": NULLS,
        "found": sorted(FOUND_KEYS),
        "findings": [
            {"metric": finding.metric, "heads": finding.heads} for finding in report.findings
        ],
        "views": [
            describe_view(report, view)
            for view in plot_data_of_views.list_report_and_layer_views(report)
        ],
        "maps": encode_attention_maps(report, store),
        "left_out": count_omitted_maps(report),
    }
    return store.encode_as_compressed_text(header)


def describe_view(report: Report, view: View) -> JsonObject:
    kind = plot_data_of_views.choose_plot_kind(report, view)
    found: JsonObject = {
        "kind": kind,
        "title": page_sentences.capitalize(view.title),
        "down": view.down,
        "across": view.across or "",
        "metrics": view.metrics,
    }
    if kind == plot_data_of_views.CURVES:
        found["panels"] = list(
            map(dataclasses.asdict, plot_data_of_views.build_plot_panels(report, view))
        )
    if kind == plot_data_of_views.BOXES:
        found["boxes"] = plot_data_of_views.build_box_plots(report, view)
    return found
