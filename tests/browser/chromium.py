"""The system's Chromium without a window, driven by selenium.

`python -m tests.browser.chromium` says what is missing for it.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from selenium.common.exceptions import WebDriverException
from selenium.webdriver import Chrome, ChromeOptions
from selenium.webdriver.chrome.service import Service

T = TypeVar("T")

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
DRIVER = "chromedriver"
# All names below .example lead to this machine, no other name leads anywhere.
HOSTS = "MAP *.example 127.0.0.1, MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE localhost"
ARGUMENTS = (
    "--headless",
    "--no-sandbox",  # root has none
    "--disable-gpu",
    "--disable-dev-shm-usage",  # an engine gives its containers 64 MB
    "--disable-quic",
    "--no-first-run",
    "--no-proxy-server",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    f"--host-resolver-rules={HOSTS}",
)
ANSWER_SECONDS = 60


def missing() -> str | None:
    """What keeps Chromium from being started here, and what to do; None if nothing does."""
    lacking = []
    if found() is None:
        lacking.append(f"a browser ({' or '.join(BROWSERS)})")
    if shutil.which(DRIVER) is None:
        lacking.append(f"its driver ({DRIVER})")
    if not lacking:
        return None
    return (
        f"not on the PATH: {' and '.join(lacking)}. "
        "Debian has them: apt-get install --no-install-recommends chromium chromium-driver"
    )


def found() -> str | None:
    return next(filter(None, map(shutil.which, BROWSERS)), None)


@contextmanager
def opened(folder: Path) -> Iterator[Chrome]:
    """A browser with this folder as its profile; only the end of the block ends it."""
    options = ChromeOptions()
    options.binary_location = str(found())
    for argument in (*ARGUMENTS, f"--user-data-dir={folder}"):
        options.add_argument(argument)
    # With the driver's path, selenium looks for none and downloads none.
    driver = Chrome(options, Service(shutil.which(DRIVER)))
    try:
        driver.set_page_load_timeout(ANSWER_SECONDS)
        driver.set_script_timeout(ANSWER_SECONDS)
        yield driver
    finally:
        driver.quit()


def again_if_it_crashed(browser: Chrome, do: Callable[[], T]) -> T:
    """Do something in a tab; on a machine short of memory or time a tab may crash: in a new one."""
    try:
        return do()
    except WebDriverException as error:
        if "crashed" not in str(error):
            raise
    browser.switch_to.new_window("tab")
    return do()


if __name__ == "__main__":
    sys.exit(missing())
