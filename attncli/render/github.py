from collections.abc import Iterator

from attncli.records import Report
from attncli.render import renderer
from attncli.sanitize import all_visible


@renderer(tells_verdicts=True)
def github(report: Report) -> str:
    """Annotations of GitHub Actions: an error per failed gate; with GITHUB_STEP_SUMMARY also the job's summary."""
    return "".join(f"{line}\n" for line in annotations(report))


def annotations(report: Report) -> Iterator[str]:
    """The answer as a notice, warnings, then what failed; passed gates are debug lines."""
    report = all_visible(report)
    title = f"attn {report.study}"
    yield command("notice", title, report.headline)
    for warning in report.warnings:
        yield command("warning", title, warning)
    for verdict in report.verdicts:
        if verdict.failed:
            yield command("error", f"{title}: {verdict.condition}", verdict.text)
        else:
            yield f"::debug::{data(f'{verdict.condition}: {verdict.text}')}"


def command(level: str, title: str, text: str) -> str:
    return f"::{level} title={property_value(title)}::{data(text)}"


def data(text: str) -> str:
    """A workflow command is one line: what would end it is written as the runner reads it back."""
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def property_value(text: str) -> str:
    return data(text).replace(":", "%3A").replace(",", "%2C")
