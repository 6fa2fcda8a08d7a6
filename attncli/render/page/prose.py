"""What a page says in words: the answer, the gates, what stands out, where it comes from."""

from collections.abc import Iterator
from pathlib import PurePath

from attncli.records import Finding, Report
from attncli.render.page.tables import described, plain, tag

UNNAMED = "What stands out"


def title(report: Report) -> str:
    """The study and what it is about, short enough for a tab."""
    about = report.source.get("name") or report.source.get("path") or ""
    name = PurePath(str(about)).name or str(about)
    return f"{report.study}: {name}" if name else report.study


def opening(report: Report) -> str:
    said = " ".join(report.command) if report.command else f"attn {report.study}"
    return tag(
        "header",
        tag("p", plain(said), class_="asked") + tag("h1", plain(report.headline)),
    )


def verdicts(report: Report) -> str:
    """Failed gates before those that passed."""
    if not report.verdicts:
        return ""
    ordered = sorted(report.verdicts, key=lambda verdict: not verdict.failed)
    failed = sum(verdict.failed for verdict in ordered)
    summary = f"{failed} of {len(ordered)} failed" if failed else f"all {len(ordered)} passed"
    lines = "".join(
        tag(
            "li",
            tag("strong", "FAIL" if verdict.failed else "pass")
            + tag("code", plain(verdict.condition))
            + tag("span", plain(verdict.text)),
            class_="failed" if verdict.failed else "passed",
        )
        for verdict in ordered
    )
    return tag(
        "section",
        tag("h2", f"Gates: {summary}", id="gates-title") + tag("ul", lines, class_="gates"),
        id="gates",
        aria_labelledby="gates-title",
    )


def findings(report: Report) -> str:
    """Under the name that their view gives them; the script makes links of the heads that they name."""
    told = [place for place, each in enumerate(report.findings) if not repeats(report, each)]
    if not told:
        return ""
    name = next((view.title for view in report.views if view.findings), UNNAMED)
    items = "".join(
        tag("dt", plain(report.findings[place].about))
        + tag("dd", plain(report.findings[place].text), data_finding=place)
        for place in told
    )
    return tag(
        "section",
        tag("h2", plain(capital(name)), id="findings-title") + tag("dl", items),
        id="findings",
        aria_labelledby="findings-title",
    )


def repeats(report: Report, finding: Finding) -> bool:
    """Whether it is the headline once more."""
    said, headline = (text.rstrip(".").casefold() for text in (finding.text, report.headline))
    return said == headline


def capital(text: str) -> str:
    """With a large letter, but for names such as log10_residual."""
    first = text.partition(" ")[0].strip(":;,")
    return text[:1].upper() + text[1:] if first.isalpha() else text


def warnings(report: Report) -> str:
    if not report.warnings:
        return ""
    items = "".join(tag("li", plain(warning)) for warning in report.warnings)
    return tag("section", tag("h2", "To bear in mind") + tag("ul", items), id="warnings")


def provenance(report: Report) -> str:
    """Folded: what was run on what, with which versions, and what every metric means."""
    return tag(
        "details",
        tag("summary", "Where these numbers come from") + "".join(origins(report)),
        id="provenance",
    )


def origins(report: Report) -> Iterator[str]:
    if report.command:
        yield tag("h3", "Command") + tag("p", tag("code", plain(" ".join(report.command))))
    for name in ("source", "input", "environment"):
        if facts := getattr(report, name):
            yield tag("h3", capital(name)) + described(facts)
    if report.seeds:
        yield tag("h3", "Seeds") + tag("p", plain(", ".join(map(str, report.seeds))))
    if report.metrics:
        yield tag("h3", "What the metrics mean") + glossary(report)


def glossary(report: Report) -> str:
    lines = "".join(
        tag("dt", plain(name)) + tag("dd", plain(f"{found.definition} [{found.unit}]"))
        for name, found in report.metrics.items()
    )
    return tag("dl", lines)
