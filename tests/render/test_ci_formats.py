"""What CI systems read: JUnit XML by its public schema, workflow commands by the runner's own unescaping."""

import re
from pathlib import Path
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

import pytest
from commands import attn
from hypothesis import example, given
from hypothesis import strategies as st
from reports import HAND_MADE, reports

from attncli.records import Report, Verdict
from attncli.render import FORMATS
from attncli.sanitize import escape_invisible_characters

SCHEMA: dict[str, tuple[set[str], set[str], list[str]]] = {
    "testsuites": (set(), {"tests", "failures", "errors", "name", "time"}, ["testsuite"]),
    "testsuite": ({"name", "tests", "failures", "errors"}, {"id", "package", "timestamp", "hostname", "time"}, ["properties", "testcase", "system-out", "system-err"]),
    "testcase": ({"name", "classname"}, {"time", "status"}, ["error", "failure", "system-out", "system-err"]),
    "failure": (set(), {"message", "type"}, []),
    "error": (set(), {"message", "type"}, []),
    "system-out": (set(), set(), []),
    "system-err": (set(), set(), []),
}  # fmt: skip
"""Element: required attributes, further ones, children in their order; what Jenkins' and Ant's schemas have in common."""


def require_schema(element: Element) -> None:
    required, optional, children = SCHEMA[element.tag]
    assert required <= set(element.keys()) <= required | optional
    order = [children.index(child.tag) for child in element]
    assert order == sorted(order)
    for child in element:
        require_schema(child)


def test_junit() -> None:
    assert FORMATS["junit"](HAND_MADE) == (
        """\
<?xml version="1.0" encoding="UTF-8"?>
<testsuites tests="2" failures="1" errors="0">
  <testsuite name="attn example" tests="2" failures="1" errors="0">
    <testcase classname="attn.example" name="log10_residual &lt; -3">
      <failure message="1 of 3 values; SAN, layer 1: -171507" type="gate">log10_residual &lt; -3: 1 of 3 values; SAN, layer 1: -171507</failure>
    </testcase>
    <testcase classname="attn.example" name="entropy &lt; 1">
      <system-out>0 of 1 value; layer 0, head 3, tokens 16: 1.25</system-out>
    </testcase>
    <system-out>SAN: log10 r = -171,507 at layer 1.</system-out>
    <system-err>only an example</system-err>
  </testsuite>
</testsuites>
"""
    )


@pytest.mark.slow
@given(report=reports)
def test_junit_follows_the_schema_and_counts_its_cases(report: Report) -> None:
    root = ElementTree.fromstring(FORMATS["junit"](report).encode())
    assert root.tag == "testsuites"
    require_schema(root)
    (suite,) = root
    cases = suite.findall("testcase")
    assert suite.get("tests") == str(len(cases)) == str(len(report.verdicts))
    for tag, place in (("failure", "failures"), ("error", "errors")):
        found = [case.find(tag) is not None for case in cases]
        assert found == [
            verdict.failed and verdict.stopped == (tag == "error") for verdict in report.verdicts
        ]
        assert suite.get(place) == root.get(place) == str(sum(found))
    assert [case.get("name") for case in cases] == [
        escape_invisible_characters(verdict.condition) for verdict in report.verdicts
    ]


def test_the_schema_can_be_broken() -> None:
    for broken in (
        "<testsuite name='x' tests='0' failures='0'/>",
        "<testsuite name='x' tests='0' failures='0' errors='0'><system-out/><testcase name='a' classname='b'/></testsuite>",
        "<testcase name='a' classname='b' colour='red'/>",
    ):
        with pytest.raises(AssertionError):
            require_schema(ElementTree.fromstring(broken))


@pytest.mark.slow
@given(text=st.text())
def test_any_text_fits_into_xml(text: str) -> None:
    element = Element("a", {"b": escape_invisible_characters(text)})
    element.text = escape_invisible_characters(text)
    again = ElementTree.fromstring(ElementTree.tostring(element, "unicode"))
    assert again.get("b") == (again.text or "") == escape_invisible_characters(text)


def test_github() -> None:
    assert FORMATS["github"](HAND_MADE) == (
        """\
::notice title=attn example::SAN: log10 r = -171,507 at layer 1.
::warning title=attn example::only an example
::error title=attn example%3A log10_residual < -3::1 of 3 values; SAN, layer 1: -171507
::debug::entropy < 1: 0 of 1 value; layer 0, head 3, tokens 16: 1.25
"""
    )


COMMAND = re.compile(r"::(?P<level>\w+)(?: title=(?P<title>[^,]*?))?::(?P<data>.*)")


def unescaped(text: str) -> str:
    """As the runner does it."""
    for code, character in (("%0D", "\r"), ("%0A", "\n"), ("%3A", ":"), ("%2C", ","), ("%25", "%")):
        text = text.replace(code, character)
    return text


awkward = st.text(st.sampled_from("%\r\n:,0AD325C") | st.characters(), max_size=8)


@example(condition="50%2C, a:b\n", text="%0A\r\n", failed=True)
@given(condition=awkward, text=awkward, failed=st.booleans())
def test_an_annotation_is_one_line_and_reads_back(condition: str, text: str, failed: bool) -> None:
    report = Report("x", "h", (), {}, {}, verdicts=(Verdict(condition, failed, text),))
    _, line, rest = FORMATS["github"](report).split("\n")
    assert rest == ""
    match = COMMAND.fullmatch(line)
    assert match is not None
    if failed:
        assert match["level"] == "error"
        assert unescaped(match["title"]) == f"attn x: {escape_invisible_characters(condition)}"
        assert unescaped(match["data"]) == escape_invisible_characters(text)


def test_the_step_summary_is_appended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    summary = tmp_path / "summary.md"
    summary.write_text("# before\n")
    monkeypatch.setitem(__import__("commands").PLAIN, "GITHUB_STEP_SUMMARY", str(summary))
    saved = str(Path(__file__).parent.parent / "reports" / "schema_version_1.json")
    outcome = attn("check", saved, "--format", "github")
    assert outcome.code == 1
    assert outcome.out.count("::error ") == 1
    text = summary.read_text()
    assert text.startswith("# before\n**SAN: log10 r")
    assert (text.count("❌"), text.count("✅")) == (1, 1)
    assert "| layer | SAN | SAN+skip |" in text
    attn("check", saved, "--format", "junit")
    assert summary.read_text() == text
