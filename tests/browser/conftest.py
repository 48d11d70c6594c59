"""A real browser for tests; without one they are skipped, and say what is missing."""

import pytest

from tests.browser import chromium


# Playwright's loop runs as long as the browser does, and asyncio allows no other beside it: so it
# ends with each module.
@pytest.fixture(scope="module")
def started_browser():
    if lacking := chromium.missing():
        pytest.skip(lacking)
    with chromium.opened() as browser:
        yield browser


@pytest.fixture
def browser(started_browser):
    """Chromium without cookies: Playwright's context, which opens tabs."""
    context = started_browser.new_context()
    context.set_default_timeout(chromium.ANSWER_MILLISECONDS)
    yield context
    context.close()
