"""The browser is started once, by the first test that needs it."""

from collections.abc import Generator, Iterator
from pathlib import Path

import browser
import pytest
from browser import Opened, Windows, launched


@pytest.fixture(scope="session")
def windows() -> Iterator[Windows]:
    with launched() as browser:
        yield Windows(browser)


@pytest.fixture
def opened(windows: Windows, tmp_path: Path) -> Iterator[Opened]:
    """Whatever a test looks at: no console error, no violation of the page's policy, no request."""
    found = Opened(windows, tmp_path)
    yield found
    found.close()
    assert found.mishaps == []


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """pytest folds skips of one place into one line of its summary, and names for each the test; here it is the reason."""
    report = yield
    if isinstance(report.longrepr, tuple) and browser.NOT_AT_HAND in report.longrepr[2]:
        report.longrepr = (browser.__file__, 1, report.longrepr[2])
    return report
