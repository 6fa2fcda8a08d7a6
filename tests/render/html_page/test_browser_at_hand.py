"""Without a browser the tests of pages are skipped with a reason; where one is required they fail."""

import shutil
from pathlib import Path
from typing import Any

import pytest
from browser import NAMES, NEEDED, find_browser, launched

OUTCOMES = [(None, pytest.skip.Exception), ("", pytest.skip.Exception), ("1", pytest.fail.Exception)]  # fmt: skip
CI_RUN = Path(__file__).resolve().parents[3] / ".ci" / "run"


@pytest.fixture(params=OUTCOMES)
def outcome(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Any:
    needed, raised = request.param
    monkeypatch.setenv("CI", "true")
    monkeypatch.delenv(NEEDED, raising=False)
    if needed is not None:
        monkeypatch.setenv(NEEDED, needed)
    return raised


@pytest.mark.slow
def test_no_browser_fails_only_where_one_is_required(
    outcome: type[BaseException], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(outcome, match="no browser: install one of chromium"), launched():
        pass


@pytest.mark.slow
def test_a_stub_that_does_not_start_is_no_browser(
    outcome: type[BaseException], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: "/bin/false")
    with pytest.raises(outcome, match="no browser: /bin/false does not start"), launched():
        pass


def test_ci_requires_a_browser() -> None:
    assert f"export {NEEDED}=1" in CI_RUN.read_text()


def test_any_browser_of_the_family_will_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: f"/usr/bin/{name}" if name == NAMES[-1] else None)  # fmt: skip
    assert find_browser() == f"/usr/bin/{NAMES[-1]}"
