"""Without a browser the tests of pages are skipped with a reason; in CI they fail."""

import shutil

import pytest
from browser import NAMES, program


@pytest.mark.parametrize(("ci", "outcome"), [("", pytest.skip.Exception), ("true", pytest.fail.Exception)])  # fmt: skip
def test_no_browser_is_said_and_never_passed_over_in_ci(
    ci: str, outcome: type[BaseException], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None)
    monkeypatch.setenv("CI", ci)
    with pytest.raises(outcome, match="no browser: install one of chromium"):
        program()


def test_any_browser_of_the_family_will_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: f"/usr/bin/{name}" if name == NAMES[-1] else None)  # fmt: skip
    assert program() == f"/usr/bin/{NAMES[-1]}"
