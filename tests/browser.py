"""A page as a browser shows it: one browser for all tests, an empty window for each, and no mishap overlooked."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

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
PATIENCE = 600_000
"""Milliseconds: only what never comes takes as long, however busy the machine is."""


NEEDED = "ATTN_TESTS_NEED_BROWSER"
"""CI sets it to 1. `CI` itself says nothing: containers and runners without a browser set that too."""
NOT_AT_HAND = "no browser"


def do_without(why: str) -> NoReturn:
    """Skip the test, or fail it where a browser is required."""
    why = f"{NOT_AT_HAND}: {why}"
    pytest.fail(why) if os.environ.get(NEEDED) == "1" else pytest.skip(why)


def find_browser() -> str:
    found = next(filter(None, map(shutil.which, NAMES)), None)
    return found or do_without(f"install one of {', '.join(NAMES)}")


def launch(playwright: Any) -> Any:
    """What is called a browser may be a stub that asks for another package."""
    from playwright.sync_api import Error

    path = find_browser()
    try:
        return playwright.chromium.launch(executable_path=path, args=list(QUIET), timeout=PATIENCE)
    except Error as error:
        do_without(f"{path} does not start: {error.message.splitlines()[0]}")


@contextmanager
def launched() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = launch(playwright)
        yield browser
        browser.close()


class Windows:
    """One window for each way to look at pages, used by one page after the other: a new one costs as much as ten pages."""

    def __init__(self, browser: Any) -> None:
        self.browser = browser
        self.open: dict[str, Any] = {}

    def empty(self, **asked: Any) -> Any:
        """As a new one is: nothing in it, on a screen, and no pointer over it."""
        key = repr(sorted(asked.items()))
        if key not in self.open:
            wanted = {"viewport": {"width": 1280, "height": 900}, "locale": "en-US", **asked}
            self.open[key] = self.browser.new_context(**wanted).new_page()
            self.open[key].set_default_timeout(PATIENCE)
        page = self.open[key]
        page.goto("about:blank")
        page.emulate_media(media="null")
        page.mouse.move(-1, -1)
        return page


class Opened:
    """Pages of one test. What a page must never do is noted: errors, violations, requests."""

    def __init__(self, windows: Windows, folder: Path) -> None:
        self.windows = windows
        self.folder = folder
        self.mishaps: list[str] = []
        self.listening: list[tuple[Any, str, Any]] = []

    def page(self, text: str, hash: str = "", **window: Any) -> Any:
        """The page, drawn."""
        path = self.folder / "report.html"
        path.write_text(text, encoding="utf-8")
        page = self.windows.empty(**window)
        self.listen(page, "console", self.note)
        self.listen(page, "pageerror", lambda error: self.mishaps.append(f"error: {error}"))
        self.listen(page, "request", lambda request: self.requested(request.url, path))
        page.goto(f"{path.as_uri()}{hash}")
        if window.get("java_script_enabled", True):
            page.wait_for_selector(READY, state="attached")
        return page

    def listen(self, page: Any, event: str, heard: Any) -> None:
        page.on(event, heard)
        self.listening.append((page, event, heard))

    def note(self, message: Any) -> None:
        if message.type in ("error", "warning"):
            self.mishaps.append(f"{message.type}: {message.text}")

    def requested(self, url: str, path: Path) -> None:
        if url.partition("#")[0] not in (path.as_uri(), "about:blank"):
            self.mishaps.append(f"request: {url}")

    def close(self) -> None:
        for page, event, heard in self.listening:
            page.remove_listener(event, heard)
