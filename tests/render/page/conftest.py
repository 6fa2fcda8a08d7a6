"""The browser is started once, by the first test that needs it."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from browser import Opened, launched


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    with launched() as found:
        yield found


@pytest.fixture
def opened(browser: Any, tmp_path: Path) -> Iterator[Opened]:
    """Whatever a test looks at: no console error, no violation of the page's policy, no request."""
    found = Opened(browser, tmp_path)
    yield found
    found.close()
    assert found.mishaps == []
