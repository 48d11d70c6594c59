"""What every page of ours has to stand: screen readers, small screens, and no word to strangers."""

from __future__ import annotations

from pathlib import Path

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page

from tests.paths import ROOT

SCREENSHOTS = ROOT / "build" / "screenshots"
WIDE, NARROW = {"width": 1280, "height": 800}, {"width": 390, "height": 844}
A4 = {"width": 703, "height": 1032}  # in CSS pixels, without its margins
# What reaches over the page's right edge, by its tag and text; hidden text is for screen readers.
# Tables and charts scroll, their captions don't.
CUT = """
() => [...document.querySelectorAll("body *")]
    .filter(element => {
        const box = element.getBoundingClientRect();
        const scrolls = element.tagName !== "CAPTION" && element.closest(".scrolls > *");
        const shown = element.checkVisibility() && box.width > 1 && !element.closest("svg > *");
        return shown && !scrolls && box.right > innerWidth + 1;
    })
    .map(element => `${element.tagName}: ${element.textContent.slice(0, 60)}`)
"""
# Text in charts below 11 px, by its size and text.
TINY = """
() => [...document.querySelectorAll("svg text")]
    .map(text => [text, text.getScreenCTM(), parseFloat(getComputedStyle(text).fontSize)])
    .map(([text, {a, b}, size]) => [Math.hypot(a, b) * size, text])
    .filter(([size, text]) => size < 10.9 && text.checkVisibility())
    .map(([size, text]) => `${size} px: ${text.textContent}`)
"""


def barriers(page: Page) -> list[str]:
    """axe-core's findings, one line each; in the dark only colours differ."""
    found = Axe().run(page).response["violations"]
    page.emulate_media(color_scheme="dark")
    found += Axe().run(page, options={"runOnly": ["color-contrast"]}).response["violations"]
    page.emulate_media(color_scheme="light")
    return [f"{one['id']}: {one['help']}: {one['nodes'][0]['html'][:200]}" for one in found]


def cut(page: Page) -> list[str]:
    """What a person at a wide or a narrow screen would scroll sideways for, or could not read."""
    lines = []
    for size in (WIDE, NARROW):
        page.set_viewport_size(size)
        found = [line for look in (CUT, TINY) for line in page.evaluate(look)]
        lines += [f"at {size['width']} px, {line}" for line in found]
    page.set_viewport_size(WIDE)
    return lines


# Headings of rows that a scrolling table moves away, and links to a run of more than two lines.
LOST = """
() => [...document.querySelectorAll(".scrolls th:first-child, a[href^='runs-'], a[href*='/runs/']")]
    .filter(element => {
        const style = getComputedStyle(element), { height } = element.getBoundingClientRect();
        if (element.matches("th")) return style.position != "sticky";
        return !element.closest("svg") && height > 2.1 * parseFloat(style.lineHeight);
    })
    .map(element => `${element.tagName}: ${element.textContent.slice(0, 60)}`)
"""


def lost(page: Page) -> list[str]:
    """What a phone makes hard to follow, and whether paper cuts off the page's right edge."""
    page.set_viewport_size(NARROW)
    lines: list[str] = page.evaluate(LOST)
    page.emulate_media(media="print")
    page.set_viewport_size(A4)
    width = page.evaluate("document.documentElement.scrollWidth")
    page.emulate_media(media="null")
    page.set_viewport_size(WIDE)
    return [*lines, f"{width} px on paper"] if width > A4["width"] else lines


def take_pictures(page: Page, name: str) -> list[Path]:
    """The whole page, light and dark, wide and narrow, in build/screenshots."""
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    pictures = []
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        for width, size in (("wide", WIDE), ("narrow", NARROW)):
            page.set_viewport_size(size)
            picture = SCREENSHOTS / f"{name}-{scheme}-{width}.png"
            page.screenshot(path=picture, full_page=True)
            pictures.append(picture)
    page.emulate_media(color_scheme="light")
    page.set_viewport_size(WIDE)
    return pictures


def strangers(page: Page, known: str) -> list[str]:
    """Collects the addresses that a page asks for and that don't begin with `known`."""
    asked: list[str] = []

    def note(request):
        if not request.url.startswith((known, "data:", "blob:", "file:", "about:")):
            asked.append(request.url)

    page.on("request", note)
    return asked
