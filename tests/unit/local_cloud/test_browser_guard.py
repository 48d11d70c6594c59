"""Which requests of a browser are served: the headers are those that Chromium and Firefox send."""

import pytest
from werkzeug.test import Client
from werkzeug.wrappers import Response

from local_cloud.browser_guard import BrowserGuard

LOG_PAGE = "/local-cloud/jobs/0f1e/log"
OBJECT = "/batchmark-results-123456789012-us-east-1/runs/a%20b/report.html"
V2 = "?AWSAccessKeyId=airflow&Signature=a%2Bb%3D&Expires=1800000000"
V4 = (
    "?X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential=airflow%2F20261123%2Fus-east-1%2Fs3"
    "%2Faws4_request&X-Amz-Date=20261123T000000Z&X-Amz-Expires=60&X-Amz-SignedHeaders=host"
    "&X-Amz-Signature=00&x-id=GetObject&versionId=1&response-content-type=text%2Fplain"
)
# From another site, from Airflow on another port, from our own pages; typed or a bookmark.
SITES = ("cross-site", "same-site", "same-origin", "none")
PAGES = (LOG_PAGE, OBJECT, OBJECT + V2, OBJECT + V4)


def fetched(site, mode="navigate", destination="document"):
    return {
        "Sec-Fetch-Site": site,
        "Sec-Fetch-Mode": mode,
        "Sec-Fetch-Dest": destination,
        "Sec-Fetch-User": "?1",
    }


@pytest.fixture
def client():
    return Client(BrowserGuard(Response("served"), ["127.0.0.1", "local-cloud", "172.18.0.1"]))


@pytest.fixture
def is_served(client):
    def ask(path, headers=None, method="GET", **options):
        answer = client.open(path, method=method, headers=headers, **options)
        assert "Access-Control-Allow-Origin" not in answer.headers
        assert (answer.status_code, "served" in answer.text) in ((200, True), (403, False))
        return answer.status_code == 200

    return ask


@pytest.mark.parametrize("method", ["GET", "POST", "OPTIONS"])
@pytest.mark.parametrize("origin", ["https://example.org", "http://127.0.0.1:5000", "null"])
@pytest.mark.parametrize("path", ["/moto-api/reset", LOG_PAGE])
def test_requests_of_scripts_and_forms_are_refused(is_served, method, origin, path):
    assert not is_served(path, {"Origin": origin}, method)
    assert not is_served(path, {"Origin": origin, **fetched("none")}, method)


def test_programs_are_served(is_served):
    for method in ("GET", "POST", "PUT", "DELETE"):
        assert is_served("/any", method=method)
    # The fetch of Node.js, which is no browser.
    assert is_served("/any", {"Sec-Fetch-Mode": "cors"}, "POST")
    without_host = {"REQUEST_METHOD": "GET", "PATH_INFO": "/any"}
    assert list(BrowserGuard(Response("served"), [])(without_host, lambda *_: None)) == [b"served"]


@pytest.mark.parametrize(
    "host",
    [
        *("127.0.0.1", "127.0.0.1:5000", "127.1.2.3:80", "[::1]:5000", "[::1]"),
        *("localhost:5000", "LocalHost", "localhost.:5000", "bucket.localhost:5000"),
        *("local-cloud:5000", "a.bucket.local-cloud:5000", "172.18.0.1:5000"),
    ],
)
def test_the_servers_own_names_are_served(is_served, host):
    assert is_served("/any", {"Host": host})


@pytest.mark.parametrize(
    "host",
    [
        *("rebound.example", "rebound.example:5000", "127.0.0.1.rebound.example:5000"),
        *("localhost.rebound.example", "notlocalhost", "local-cloud.example", "xlocal-cloud"),
        # To these, browsers send no Sec-Fetch headers.
        *("0.0.0.0:5000", "[::]:5000", "192.168.1.7:5000"),
        *("172.18.0.10", "1.172.18.0.1.example", "[::ffff:1.2.3.4]", "127.0.0.1:5000,x", "[", ""),
    ],
)
def test_any_other_host_is_refused_as_after_dns_rebinding(is_served, host):
    for path in ("/any", *PAGES):
        assert not is_served(path, {"Host": host})
        assert not is_served(path, {"Host": host, **fetched("same-origin")})


def test_the_refusal_of_a_host_names_it_and_what_to_do(client):
    text = client.get("/", headers={"Host": "my-machine:5000"}).text
    assert text == (
        "The local cloud refuses the host 'my-machine:5000': it accepts only loopback "
        "addresses and localhost, 127.0.0.1, 172.18.0.1, local-cloud; use --host or --job-endpoint "
        "to add others\n"
    )


@pytest.mark.parametrize("site", SITES)
def test_links_to_logs_and_objects_open(is_served, site):
    for page in PAGES:
        assert is_served(page, fetched(site)), page


@pytest.mark.parametrize("site", SITES)
@pytest.mark.parametrize(
    "path",
    [
        *("/", "/?Action=CreateStack&TemplateBody=x", "/v1/submitjob", "/_faults", "/favicon.ico"),
        *("/cloudformation_us-east-1/?Action=CreateStack", "/ssm_us-east-1/x?Action=PutParameter"),
        *("/bucket", "/bucket/", "/bucket/key?Action=CreateStack", f"{OBJECT}{V2}&Action=x"),
        *("/bucket/key?uploads", "/local-cloud/jobs/0f1e/other?x=1", "/v4/0123/task"),
        *("/moto-api/", "/moto-api/reset", "/moto-api/recorder/start-recording"),
    ],
)
def test_no_link_reaches_anything_else(is_served, site, path):
    assert not is_served(path, fetched(site))


@pytest.mark.parametrize("site", ["cross-site", "same-site", "same-origin"])
@pytest.mark.parametrize(
    ("mode", "destination"),
    [
        *(("no-cors", "image"), ("no-cors", "script"), ("cors", "empty"), ("no-cors", "empty")),
        *(("navigate", "iframe"), ("navigate", "object"), ("websocket", "empty"), ("", "")),
    ],
)
def test_what_a_page_loads_by_itself_is_refused(is_served, site, mode, destination):
    for page in PAGES:
        assert not is_served(page, fetched(site, mode, destination))


@pytest.mark.parametrize("site", SITES)
@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS"])
def test_a_browser_only_reads(is_served, site, method):
    for page in PAGES:
        assert not is_served(page, fetched(site), method)


def test_of_motos_control_only_the_reset_is_served(is_served):
    assert is_served("/moto-api/reset", method="POST")
    assert not is_served("/moto-api/reset")
    for path in (
        *("/moto-api", "/moto-api/", "/moto-api/data.json", "/moto-api/reset/", "/moto-apix"),
        *("/moto-api/recorder/start-recording", "/moto-api/recorder/replay-recording"),
        *("/moto-api/state-manager/set-transition", "/moto-api/proxy/passthrough"),
    ):
        for method in ("GET", "POST"):
            assert not is_served(path, method=method), path
