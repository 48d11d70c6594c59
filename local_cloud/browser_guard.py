"""Prevents web pages open in a browser on this machine from running commands here."""

from __future__ import annotations

import re
from collections.abc import Iterable
from http import HTTPStatus
from ipaddress import ip_address
from urllib.parse import parse_qsl, urlsplit
from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

from werkzeug.wrappers import Response

from local_cloud import log_pages

# moto's own control API. Its recorder writes and replays files, so only what tests need is served.
CONTROL = "/moto-api"
SERVED_CONTROL = ("POST", f"{CONTROL}/reset")
# Bucket names have no underscore: moto takes `/ssm_us-east-1/` for a call to SSM.
OBJECT = re.compile(r"/[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]/.+", re.DOTALL)
OF_PRESIGNED_OBJECTS = re.compile(
    r"AWSAccessKeyId|Signature|Expires|versionId|x-id|response-[a-z-]+|"
    r"x-amz-(algorithm|credential|date|expires|signedheaders|security-token|signature)|"
    r"x-amz-(checksum-mode|content-sha256)",
    re.IGNORECASE,
)


class BrowserGuard:
    """WSGI middleware that refuses any request a web page could make a browser send.

    It refuses requests that have:

    - an unknown Host header. Browsers always send this header, and after DNS rebinding it contains
      the page's own host name.
    - an Origin header, which scripts and forms send
    - a Sec-Fetch-Site header, which browsers send to loopback addresses. Links to a job's log or an
      S3 object, such as those on Airflow's pages, are served because they can only read.
    - a path of moto's control API other than its reset, from any client

    Args:
        hosts: names and addresses of this server, besides loopback. Their subdomains are served
            too, because S3 clients put the bucket name there.
    """

    def __init__(self, app: WSGIApplication, hosts: Iterable[str]) -> None:
        self._app = app
        self._hosts = ("localhost", *sorted(set(hosts) - {"localhost"}))

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        refusal = self._refusal(environ)
        if refusal is None:
            return self._app(environ, start_response)
        answer = Response(f"The local cloud refuses {refusal}\n", status=HTTPStatus.FORBIDDEN)
        return answer(environ, start_response)

    def _refusal(self, environ: WSGIEnvironment) -> str | None:
        """Return a description of what is refused, or None if the request is served."""
        path = environ.get("PATH_INFO", "")
        host = environ.get("HTTP_HOST")
        if host is not None and not self._is_known(host):
            return (
                f"the host {host!r}: it accepts only loopback addresses and "
                f"{', '.join(self._hosts)}; use --host or --job-endpoint to add others"
            )
        if "HTTP_ORIGIN" in environ:
            return "requests sent by a page's scripts or forms; only links are allowed"
        if path.startswith(CONTROL) and (environ["REQUEST_METHOD"], path) != SERVED_CONTROL:
            return f"requests to moto's control API, except {' '.join(SERVED_CONTROL)}"
        if "HTTP_SEC_FETCH_SITE" in environ and not (is_link(environ) and only_reads(environ)):
            return "browser requests other than links to job logs and S3 objects"
        return None

    def _is_known(self, host: str) -> bool:
        try:
            parts = urlsplit(f"//{host}")
            name, _ = (parts.hostname or "").removesuffix("."), parts.port
        except ValueError:  # not a valid host and port
            return False
        try:
            if ip_address(name).is_loopback:
                return True
        except ValueError:
            pass
        return any(name == known or name.endswith(f".{known}") for known in self._hosts)


def is_link(environ: WSGIEnvironment) -> bool:
    """Return whether a browser is opening a page in a tab, for example by following a link."""
    return (
        environ["REQUEST_METHOD"] in ("GET", "HEAD")
        and environ.get("HTTP_SEC_FETCH_MODE") == "navigate"
        and environ.get("HTTP_SEC_FETCH_DEST") == "document"
    )


def only_reads(environ: WSGIEnvironment) -> bool:
    """Return whether a GET or HEAD request can only read a job's log or an S3 object."""
    path = environ.get("PATH_INFO", "")
    query = parse_qsl(environ.get("QUERY_STRING", ""), keep_blank_values=True)
    return log_pages.PATH.fullmatch(path) is not None or (
        OBJECT.fullmatch(path) is not None
        and all(OF_PRESIGNED_OBJECTS.fullmatch(name) for name, _ in query)
    )
