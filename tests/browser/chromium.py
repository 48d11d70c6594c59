"""The system's Chromium without a window, driven by Playwright, which downloads none.

`python -m tests.browser.chromium` says what is missing for it.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from playwright.sync_api import Browser, BrowserContext, Error, Page, sync_playwright

T = TypeVar("T")

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
# All names below .example lead to this machine, no other name leads anywhere.
HOSTS = "MAP *.example 127.0.0.1, MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE localhost"
ARGUMENTS = (
    "--no-sandbox",  # root has none
    "--disable-gpu",
    "--disable-dev-shm-usage",  # an engine gives its containers 64 MB
    "--disable-quic",
    "--no-proxy-server",
    "--disable-sync",
    f"--host-resolver-rules={HOSTS}",
)
ANSWER_MILLISECONDS = 240_000  # below pytest's limit, whose error names no element


def missing() -> str | None:
    """What keeps Chromium from being started here, and what to do; None if nothing does."""
    if found() is not None:
        return None
    return (
        f"not on the PATH: a browser ({' or '.join(BROWSERS)}). "
        "Debian has it: apt-get install --no-install-recommends chromium"
    )


def found() -> str | None:
    return next(filter(None, map(shutil.which, BROWSERS)), None)


@contextmanager
def opened() -> Iterator[Browser]:
    """A browser that only the end of the block ends."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=found(), args=list(ARGUMENTS), timeout=ANSWER_MILLISECONDS
        )
        try:
            yield browser
        finally:
            browser.close()


def again_if_it_crashed(context: BrowserContext, do: Callable[[Page], T]) -> T:
    """Do something in a tab; on a machine short of memory or time a tab may crash: in a new one."""
    try:
        return do(context.new_page())
    except Error as error:
        if "crashed" not in str(error):
            raise
    return do(context.new_page())


if __name__ == "__main__":
    sys.exit(missing())
