from xml.etree import ElementTree
from xml.etree.ElementTree import Element, SubElement

from attncli.records import Report, Verdict
from attncli.render import renderer
from attncli.render._table_cells import sanitize_sentences


@renderer(endings=(".xml",), holds_rows=False)
def junit(report: Report) -> str:
    """One test case a gate, as JUnit XML: what CI systems show as test results."""
    report = sanitize_sentences(report)  # which leaves nothing that XML 1.0 has no words for
    errors = sum(verdict.stopped for verdict in report.verdicts)
    failures = sum(verdict.failed for verdict in report.verdicts) - errors
    counts = {"tests": str(len(report.verdicts)), "failures": str(failures), "errors": str(errors)}
    root = Element("testsuites", counts)
    suite = SubElement(root, "testsuite", {"name": f"attn {report.study}", **counts})
    for verdict in report.verdicts:
        add_junit_test_case(suite, report.study, verdict)
    SubElement(suite, "system-out").text = report.headline
    SubElement(suite, "system-err").text = "\n".join(report.warnings)
    ElementTree.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ElementTree.tostring(root, "unicode") + "\n"


def add_junit_test_case(suite: Element, study: str, verdict: Verdict) -> None:
    """Add a test case: the deciding number is the failure's message or the output; a check that
    could not run is an error."""
    place = {"classname": f"attn.{study}", "name": verdict.condition}
    case = SubElement(suite, "testcase", place)
    text = verdict.text
    if verdict.failed:
        kind, cause = ("error", "stopped") if verdict.stopped else ("failure", "gate")
        message = {"message": text, "type": cause}
        SubElement(case, kind, message).text = f"{place['name']}: {text}"
    else:
        SubElement(case, "system-out").text = text
