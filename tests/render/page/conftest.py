"""The browser is started once, by the first test that needs it."""

from collections.abc import Iterator
from pathlib import Path

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
