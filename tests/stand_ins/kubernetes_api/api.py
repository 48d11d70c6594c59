"""Kubernetes' API on loopback, as far as sharing GPUs calls it, in front of a cluster in memory."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from threading import Lock
from typing import Any
from urllib.parse import parse_qs, urlsplit

from tests.stand_ins.http import QuietHandler, serving_by
from tests.stand_ins.kubernetes_api import access
from tests.stand_ins.kubernetes_api.access import Access
from tests.stand_ins.kubernetes_api.cluster import Cluster
from tests.stand_ins.kubernetes_api.validation import RefusedError, not_found

PATH = re.compile(
    r"/(?:api/v1|apis/(?P<group>batch|apps)/v1)"
    r"(?:/namespaces/(?P<namespace>[^/]+))?"
    r"/(?P<resource>nodes|pods|events|jobs|daemonsets)"
    r"(?:/(?P<name>[^/]+))?(?P<log>/log)?"
)
KINDS = {
    "nodes": "Node",
    "pods": "Pod",
    "events": "Event",
    "jobs": "Job",
    "daemonsets": "DaemonSet",
}
STATUS = {"kind": "Status", "apiVersion": "v1"}
STRATEGIC = "application/strategic-merge-patch+json"
VERBS = {"POST": "create", "PATCH": "patch", "DELETE": "delete"}

Object = dict[str, Any]


class Call:
    """One request, taken apart."""

    def __init__(self, method: str, url: str, body: bytes, content_type: str) -> None:
        parts = urlsplit(url)
        found = PATH.fullmatch(parts.path)
        if found is None:
            raise RefusedError(404, "the server could not find the requested resource")
        self.group = found["group"] or ""
        self.namespace, self.name = found["namespace"], found["name"]
        self.resource = found["resource"] + (found["log"] or "")
        self.verb = VERBS.get(method) or ("get" if self.name else "list")
        self.query = {key: values[0] for key, values in parse_qs(parts.query).items()}
        self.body: Object = json.loads(body) if body else {}
        self.content_type = content_type


def answer(cluster: Cluster, call: Call) -> Object | str:
    """What a handler found, with its kind; of a list, those that were asked for."""
    handler = HANDLERS.get((call.verb, call.resource))
    if handler is None:
        raise RefusedError(404, "the server could not find the requested resource")
    found = handler(cluster, call)
    if isinstance(found, str):
        return found
    kind = {
        "kind": KINDS[call.resource] + ("List" if call.verb == "list" else ""),
        "apiVersion": f"{call.group}/v1".removeprefix("/"),
    }
    if isinstance(found, dict):
        return {**kind, **found}
    return {**kind, "metadata": {}, "items": [one for one in found if _is_asked_for(call, one)]}


def _is_asked_for(call: Call, found: Object) -> bool:
    selector = call.query.get("labelSelector", "")
    wanted = dict(part.split("=", 1) for part in selector.split(",") if part)
    labels, namespace = (found["metadata"].get(name) for name in ("labels", "namespace"))
    return wanted.items() <= (labels or {}).items() and call.namespace in {None, namespace}


def _delete_job(cluster: Cluster, call: Call) -> Object:
    asked = call.query.get("propagationPolicy") or call.body.get("propagationPolicy")
    cluster.delete_job(call.name, asked)
    return {**STATUS, "status": "Success"}


def _patch_daemon_set(cluster: Cluster, call: Call) -> Object:
    if call.content_type != STRATEGIC:
        raise RefusedError(415, f"the body of the request was {call.content_type}")
    return cluster.patch_daemon_set(call.name, call.body)


def _log(cluster: Cluster, call: Call) -> str:
    if call.name not in cluster.pods:
        raise not_found("pods", call.name)
    if call.name not in cluster.logs:
        raise RefusedError(400, f'container "benchmark" in pod "{call.name}" is waiting to start')
    lines = cluster.logs[call.name].splitlines(keepends=True)
    return "".join(lines[-int(call.query.get("tailLines", len(lines) or 1)) :])


HANDLERS: dict[tuple[str, str], Callable[[Cluster, Call], Object | Iterable[Object] | str]] = {
    ("list", "nodes"): lambda cluster, call: cluster.nodes,
    ("list", "pods"): lambda cluster, call: cluster.pods.values(),
    ("get", "pods/log"): _log,
    ("list", "events"): lambda cluster, call: cluster.events,
    ("list", "jobs"): lambda cluster, call: cluster.jobs.values(),
    ("create", "jobs"): lambda cluster, call: cluster.create_job(call.namespace, call.body),
    ("get", "jobs"): lambda cluster, call: cluster.job(call.name),
    ("delete", "jobs"): _delete_job,
    ("get", "daemonsets"): lambda cluster, call: cluster.daemon_set(call.name),
    ("patch", "daemonsets"): _patch_daemon_set,
}


@contextmanager
def serving(cluster: Cluster, let_in: Access) -> Iterator[str]:
    """The address of an API on a free port."""
    lock = Lock()

    class Handler(QuietHandler):
        def respond(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            try:
                with lock:
                    found = self.found(body)
            except RefusedError as error:
                self.send(error.code, error.status())
            else:
                self.send(200, found)

        do_GET = do_POST = do_PATCH = do_DELETE = respond  # noqa: N815

        def found(self, body: bytes) -> Object | str:
            groups = let_in.groups_of(self.headers.get("Authorization"))
            call = Call(self.command, self.path, body, self.headers.get("Content-Type", ""))
            access.check(cluster.objects, groups, call)
            cluster.tick()
            return answer(cluster, call)

        def send(self, code: int, found: Object | str) -> None:
            is_text = isinstance(found, str)
            text = found if is_text else json.dumps(found)
            self.send_response(code)
            self.send_header("Content-Type", "text/plain" if is_text else "application/json")
            self.end_headers()
            self.wfile.write(text.encode())

    with serving_by(Handler) as server:
        yield f"http://127.0.0.1:{server.server_address[1]}"
