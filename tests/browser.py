"""A page as a browser shows it: one browser for all tests, a fresh window for each, and no mishap overlooked."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome")
QUIET = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--no-first-run",
)
READY = "html[data-ready=yes]"


def program() -> str:
    """The browser; without one a test is skipped, but not in CI."""
    found = next(filter(None, map(shutil.which, NAMES)), None)
    if found is None:
        why = f"no browser: install one of {', '.join(NAMES)}"
        pytest.fail(why) if os.environ.get("CI") else pytest.skip(why)
    return found


@contextmanager
def launched() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    path = program()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=list(QUIET))
        yield browser
        browser.close()


class Opened:
    """Pages in a window of their own. What a page must never do is noted: errors, violations, requests."""

    def __init__(self, browser: Any, folder: Path) -> None:
        self.browser = browser
        self.folder = folder
        self.mishaps: list[str] = []
        self.contexts: list[Any] = []

    def page(self, text: str, hash: str = "", **window: Any) -> Any:
        """The page, drawn."""
        path = self.folder / "report.html"
        path.write_text(text, encoding="utf-8")
        context = self.browser.new_context(
            **{"viewport": {"width": 1280, "height": 900}, "locale": "en-US", **window}
        )
        self.contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(20_000)
        page.on("console", lambda message: self.note(message))
        page.on("pageerror", lambda error: self.mishaps.append(f"error: {error}"))
        page.on("request", lambda request: self.requested(request.url, path))
        page.goto(f"{path.as_uri()}{hash}")
        if window.get("java_script_enabled", True):
            page.wait_for_selector(READY, state="attached")
        return page

    def note(self, message: Any) -> None:
        if message.type in ("error", "warning"):
            self.mishaps.append(f"{message.type}: {message.text}")

    def requested(self, url: str, path: Path) -> None:
        if url.partition("#")[0] != path.as_uri():
            self.mishaps.append(f"request: {url}")

    def close(self) -> None:
        for context in self.contexts:
            context.close()
