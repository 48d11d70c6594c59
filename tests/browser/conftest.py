"""A real browser for tests; without one they are skipped, and say what is missing."""

import pytest

from tests.browser import chromium


@pytest.fixture(scope="session")
def started_browser(tmp_path_factory):
    if lacking := chromium.missing():
        pytest.skip(lacking)
    with chromium.opened(tmp_path_factory.mktemp("chromium")) as driver:
        yield driver


@pytest.fixture
def browser(started_browser):
    """Chromium with a new tab and no cookies: selenium's driver."""
    first = started_browser.current_window_handle
    started_browser.switch_to.new_window("tab")
    try:
        yield started_browser
        started_browser.delete_all_cookies()
        started_browser.close()
    finally:
        started_browser.switch_to.window(first)
