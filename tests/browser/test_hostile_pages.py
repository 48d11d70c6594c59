"""A real browser opens hostile pages; they attack the local cloud with its guard and without it."""

from functools import partial

import pytest
from selenium.webdriver.common.by import By

from tests.browser import victim as victims
from tests.browser.attacks import ATTACKS, LIBRARY, another_port, report
from tests.browser.chromium import again_if_it_crashed
from tests.stand_ins.http import serving
from tests.waiting import wait_for

REFUSED = 403
CASES = [
    pytest.param(attack, page, id=f"{name}, {page.__name__}")
    for name, attack in ATTACKS.items()
    for page in attack.pages
]
FOLLOW = """
const link = Object.assign(document.createElement("a"), {href: arguments[0]});
document.body.append(link);
link.click();
"""


@pytest.fixture(scope="module")
def guarded(started_browser, tmp_path_factory):
    with victims.started(tmp_path_factory.mktemp("guarded"), "local_cloud") as started:
        started.prepare()
        yield started


@pytest.fixture(scope="module")
def unguarded(started_browser, tmp_path_factory):
    folder = tmp_path_factory.mktemp("unguarded")
    with victims.started(folder, "tests.browser.unguarded") as started:
        yield started


@pytest.fixture(scope="module")
def other_port():
    """Of a server whose pages are empty."""
    with serving(lambda _: (200, b"<!doctype html><title>empty</title>")) as server:
        yield server.server_port


def harm(browser, victim, attack, page, target):
    """What the attack from this page changed and read, and what the local cloud answered."""
    before = victim.state()

    def seen_from(page):
        browser.get(page)
        victim.skip_answers()
        return browser.execute_async_script(
            "const [target, done] = arguments;"
            f"(async () => {{{LIBRARY}{attack.script}}})().then("
            "text => done(String(text)), error => done(String(error)))",
            target,
        )

    seen = again_if_it_crashed(browser, partial(seen_from, page))
    answers = victim.answers_to(attack.path)
    after = victim.state()
    changed = {name for name in before if before[name] != after[name]}
    return changed | ({"read"} if victim.secret in seen else set()), answers


@pytest.mark.parametrize(("attack", "page"), CASES)
def test_a_page_reads_and_changes_nothing(browser, guarded, unguarded, other_port, attack, page):
    unguarded.prepare()
    harmed, answers = harm(browser, unguarded, attack, *page(unguarded, other_port))
    assert (harmed, REFUSED in answers) == (attack.harms, False)
    harmed, answers = harm(browser, guarded, attack, *page(guarded, other_port))
    assert (harmed, set(answers)) == (set(), {REFUSED})


@pytest.mark.parametrize("linked", ["log", "report"])
def test_a_link_on_another_ports_page_opens(browser, guarded, other_port, linked):
    job_id = guarded.cloud.shell(f"echo {guarded.secret}")
    guarded.cloud.finish(job_id)
    page, _ = another_port(guarded, other_port)
    url, _ = report(guarded, other_port)
    if linked == "log":
        url = f"{guarded.url}/local-cloud/jobs/{job_id}/log"
    browser.get(page)
    browser.execute_script(FOLLOW, url)
    wait_for(lambda: browser.current_url == url, url, 30)
    assert guarded.secret in browser.find_element(By.TAG_NAME, "body").text
