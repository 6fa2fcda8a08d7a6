"""Sentences of a page: the answer, the gates, the findings, the provenance."""

import shlex
from collections.abc import Iterator, Sequence
from pathlib import PurePath

from attncli.records import Finding, Report
from attncli.render.html_page.html_tables import escape_text, format_nested_metadata, html_tag

UNNAMED = "What stands out"


def format_page_title(report: Report) -> str:
    """The study and its subject, short enough for a tab."""
    about = report.source.get("name") or report.source.get("path") or ""
    name = PurePath(str(about)).name or str(about)
    return f"{report.study}: {name}" if name else report.study


def format_page_header(report: Report) -> str:
    command = format_command_line(report.command or ("attn", report.study))
    return html_tag(
        "header",
        html_tag("p", escape_text(command), class_="asked")
        + html_tag("h1", escape_text(report.headline)),
    )


def format_command_line(words: Sequence[str]) -> str:
    """The words as a shell reads them again; a call in Python is a single one."""
    return words[0] if len(words) == 1 else shlex.join(words)


def format_gate_verdicts(report: Report) -> str:
    """Failed gates before those that passed."""
    if not report.verdicts:
        return ""
    ordered = sorted(report.verdicts, key=lambda verdict: not verdict.failed)
    failed = sum(verdict.failed for verdict in ordered)
    summary = f"{failed} of {len(ordered)} failed" if failed else f"all {len(ordered)} passed"
    lines = "".join(
        html_tag(
            "li",
            html_tag("strong", "FAIL" if verdict.failed else "pass")
            + html_tag("code", escape_text(verdict.condition))
            + html_tag("span", escape_text(verdict.text)),
            class_="failed" if verdict.failed else "passed",
        )
        for verdict in ordered
    )
    return html_tag(
        "section",
        html_tag("h2", f"Gates: {summary}", id="gates-title")
        + html_tag("ul", lines, class_="gates"),
        id="gates",
        aria_labelledby="gates-title",
    )


def format_findings(report: Report) -> str:
    """Findings under the names that their views give them; the script makes links of the heads they name."""
    sentences = [
        place
        for place, each in enumerate(report.findings)
        if not is_repetition_of_headline(report, each)
    ]
    if not sentences:
        return ""
    name = next((view.title for view in report.views if view.findings), UNNAMED)
    items = "".join(
        html_tag("dt", escape_text(report.findings[place].about))
        + html_tag("dd", escape_text(report.findings[place].text), data_finding=place)
        for place in sentences
    )
    return html_tag(
        "section",
        html_tag("h2", escape_text(capitalize(name)), id="findings-title") + html_tag("dl", items),
        id="findings",
        aria_labelledby="findings-title",
    )


def is_repetition_of_headline(report: Report, finding: Finding) -> bool:
    """Whether the finding only repeats the headline."""
    command, headline = (text.rstrip(".").casefold() for text in (finding.text, report.headline))
    return command == headline


def capitalize(text: str) -> str:
    """Capitalize the first letter, except of names such as log10_residual."""
    first = text.partition(" ")[0].strip(":;,")
    return text[:1].upper() + text[1:] if first.isalpha() else text


def format_warnings(report: Report) -> str:
    if not report.warnings:
        return ""
    items = "".join(html_tag("li", escape_text(warning)) for warning in report.warnings)
    return html_tag(
        "section", html_tag("h2", "To bear in mind") + html_tag("ul", items), id="warnings"
    )


def format_provenance(report: Report) -> str:
    """Provenance, folded: command, inputs, versions, and the definition of every metric."""
    return html_tag(
        "details",
        html_tag("summary", "Where these numbers come from")
        + "".join(format_command_and_inputs(report)),
        id="provenance",
    )


def format_command_and_inputs(report: Report) -> Iterator[str]:
    if report.command:
        yield html_tag("h3", "Command") + html_tag(
            "p", html_tag("code", escape_text(format_command_line(report.command)))
        )
    for name in ("source", "input", "environment"):
        if facts := getattr(report, name):
            yield html_tag("h3", capitalize(name)) + format_nested_metadata(facts)
    if report.seeds:
        yield html_tag("h3", "Seeds") + html_tag(
            "p", escape_text(", ".join(map(str, report.seeds)))
        )
    if report.metrics:
        yield html_tag("h3", "What the metrics mean") + format_glossary(report)


def format_glossary(report: Report) -> str:
    lines = "".join(
        html_tag("dt", escape_text(name))
        + html_tag("dd", escape_text(f"{found.definition} [{found.unit}]"))
        for name, found in report.metrics.items()
    )
    return html_tag("dl", lines)
