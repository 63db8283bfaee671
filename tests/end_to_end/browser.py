"""A real browser for tests: Debian's Chromium, driven by playwright, and axe."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), ""
)
WIDTHS = (390, 768, 1280, 1920)
THEMES = ("light", "dark")


def need_browser() -> None:
    """Skip the test, saying what is missing."""
    missing = [] if CHROMIUM else ["Chromium (apt-get install chromium)"]
    missing += [] if find_spec("playwright") else ["playwright (pip install playwright)"]
    if missing:
        pytest.skip("no " + " and no ".join(missing) + " on this machine")


@contextmanager
def open_browser() -> Iterator[Any]:
    need_browser()
    from playwright.sync_api import sync_playwright

    with sync_playwright() as play:
        browser = play.chromium.launch(
            executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"]
        )
        yield browser
        browser.close()


def violations(page: Any) -> list[str]:
    """What axe finds wrong with a page: the rule and the first place."""
    if not find_spec("axe_playwright_python"):
        pytest.skip("no axe on this machine (pip install axe-playwright-python)")
    from axe_playwright_python.sync_playwright import Axe

    found = Axe().run(page).response["violations"]
    return [f"{one['id']}: {one['nodes'][0]['html'][:200]}" for one in found]


def sideways(page: Any) -> int:
    """How many pixels a page is wider than its window."""
    width: int = page.evaluate("document.documentElement.scrollWidth - innerWidth")
    return width


def settled(page: Any) -> None:
    """Wait until the next frame is drawn."""
    page.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")


def kept(page: Any, name: str) -> None:
    """A picture of the whole page in the folder that RAPPOR_TEST_SCREENSHOTS names."""
    folder = os.environ.get("RAPPOR_TEST_SCREENSHOTS")
    if folder:
        page.screenshot(path=Path(folder) / f"{name}.png", full_page=True)
