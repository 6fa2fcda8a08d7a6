from collections.abc import Iterator

from attncli.records import Report
from attncli.render import renderer
from attncli.render._table_cells import sanitize_sentences


@renderer(tells_verdicts=True)
def github(report: Report) -> str:
    """Annotations of GitHub Actions: an error per failed gate; with GITHUB_STEP_SUMMARY also the job's summary."""
    return "".join(f"{line}\n" for line in format_annotations(report))


def format_annotations(report: Report) -> Iterator[str]:
    """The answer as a notice, warnings, then what failed; passed gates are debug lines."""
    report = sanitize_sentences(report)
    title = f"attn {report.study}"
    yield format_workflow_command("notice", title, report.headline)
    for warning in report.warnings:
        yield format_workflow_command("warning", title, warning)
    for verdict in report.verdicts:
        if verdict.failed:
            yield format_workflow_command("error", f"{title}: {verdict.condition}", verdict.text)
        else:
            yield f"::debug::{escape_workflow_command_text(f'{verdict.condition}: {verdict.text}')}"


def format_workflow_command(level: str, title: str, text: str) -> str:
    return f"::{level} title={escape_workflow_command_property(title)}::{escape_workflow_command_text(text)}"


def escape_workflow_command_text(text: str) -> str:
    """Escape line breaks and percent signs, since a workflow command is one line."""
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def escape_workflow_command_property(text: str) -> str:
    return escape_workflow_command_text(text).replace(":", "%3A").replace(",", "%2C")
