"""A real browser opens hostile pages; they attack the local cloud with its guard and without it."""

import pytest

from tests.browser.chromium import again_if_it_crashed
from tests.browser.victim import ATTACKS, LIBRARY, another_port, report, started
from tests.stand_ins.http import serving

REFUSED = 403
CASES = [
    pytest.param(attack, page, id=f"{name}, {page.__name__}")
    for name, attack in ATTACKS.items()
    for page in attack.pages
]
FOLLOW = """
href => {
    const link = Object.assign(document.createElement("a"), {href});
    document.body.append(link);
    link.click();
}
"""


@pytest.fixture(scope="module")
def guarded(started_browser, tmp_path_factory):
    with started(tmp_path_factory.mktemp("guarded"), "local_cloud") as made:
        made.prepare()
        yield made


@pytest.fixture(scope="module")
def unguarded(started_browser, tmp_path_factory):
    with started(tmp_path_factory.mktemp("bare"), "tests.browser.unguarded") as made:
        yield made


@pytest.fixture(scope="module")
def other_port():
    """Of a server whose pages are empty."""
    with serving(lambda _: (200, b"<!doctype html><title>empty</title>")) as server:
        yield server.server_port


def harm(browser, victim, attack, page, target):
    """What the attack from this page changed and read, and what the local cloud answered."""
    before = victim.state()

    def seen_from(tab):
        tab.goto(page)
        victim.skip_answers()
        return tab.evaluate(
            f"target => (async () => {{{LIBRARY}{attack.script}}})().then(String, String)", target
        )

    seen = again_if_it_crashed(browser, seen_from)
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
    tab = browser.new_page()
    tab.goto(page)
    tab.evaluate(FOLLOW, url)
    tab.wait_for_url(url)
    assert guarded.secret in tab.inner_text("body")
