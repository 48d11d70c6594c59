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
# On a screen, also text of less than 12 pixels, headings of rows that a scrolling table moves away,
# and links to a run of more than two lines.
CUT = """
() => [...document.querySelectorAll("body *")]
    .filter(element => {
        const box = element.getBoundingClientRect(), style = getComputedStyle(element);
        if (!element.checkVisibility() || box.width <= 1) return false;
        if (element.closest("svg > *")) return false;
        const screen = matchMedia("screen").matches;
        const small = screen && element.innerText && parseFloat(style.fontSize) < 12;
        const moves = element.matches(".scrolls th:first-child") && style.position != "sticky";
        const run = element.matches('a[href^="runs-"], a[href*="/runs/"]');
        const lines = run && box.height / parseFloat(style.lineHeight);
        const scrolls = screen && element.closest(".scrolls > *");
        return small || moves || lines > 2.1 || (!scrolls && box.right > innerWidth + 1);
    })
    .map(element => `${element.tagName}: ${element.textContent.slice(0, 60)}`)
"""


def barriers(page: Page) -> list[str]:
    """axe-core's findings, one line each; in the dark only colours differ."""
    found = Axe().run(page).response["violations"]
    page.emulate_media(color_scheme="dark")
    found += Axe().run(page, options={"runOnly": ["color-contrast"]}).response["violations"]
    page.emulate_media(color_scheme="light")
    return [f"{one['id']}: {one['help']}: {one['nodes'][0]['html'][:200]}" for one in found]


def cut(page: Page) -> list[str]:
    """What doesn't fit a wide or a narrow screen, or paper."""
    lines = []
    for media, size in (("screen", WIDE), ("screen", NARROW), ("print", A4)):
        page.emulate_media(media=media)
        page.set_viewport_size(size)
        lines += [f"at {size['width']} px, {line}" for line in page.evaluate(CUT)]
    page.emulate_media(media="null")
    page.set_viewport_size(WIDE)
    return lines


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
