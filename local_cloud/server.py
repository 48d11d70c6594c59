"""moto's server with our fixes and the Batch that runs jobs."""

from __future__ import annotations

import os
import socket
import threading
from contextlib import suppress
from typing import TYPE_CHECKING

# moto reads this on import: Terraform attaches AWS's managed policies by their real names.
os.environ["MOTO_IAM_LOAD_MANAGED_POLICIES"] = "true"

from moto.moto_server.werkzeug_app import (
    DomainDispatcherApplication,
    MotoRequestHandler,
    create_backend_app,
)
from werkzeug.serving import make_server

from local_cloud import gaps
from local_cloud.batch import models as batch
from local_cloud.browsers import NoScripts
from local_cloud.faults.middleware import Faults
from local_cloud.gaps.pricing import PriceList
from local_cloud.log_pages import LogPages
from local_cloud.recorder import Recorder
from local_cloud.repeats import Repeats
from local_cloud.state.durable import Durable
from local_cloud.state.store import Store
from local_cloud.task_metadata import TaskMetadata

if TYPE_CHECKING:
    from pathlib import Path
    from wsgiref.types import WSGIApplication, WSGIEnvironment

    from local_cloud.prices import Prices
    from local_cloud.settings import Settings

LINGER_SECONDS = 2.0


class LoggingRequestHandler(MotoRequestHandler):
    """Logs each request, and ends a connection in RFC 9112's two stages (section 9.6).

    The answer first, the socket once the client has closed its end: else an answer can get lost,
    and a client that then sends its `Create...` again is told that it already exists.
    """

    def finish(self) -> None:
        """Send the end of the answer, then wait for the client's end."""
        super().finish()
        with suppress(OSError):
            self.connection.shutdown(socket.SHUT_WR)
            self.connection.settimeout(LINGER_SECONDS)
            while self.connection.recv(65_536):
                pass

    def connection_dropped(
        self, error: BaseException, environ: WSGIEnvironment | None = None
    ) -> None:
        """Say which answer nobody took."""
        request = f"{environ['REQUEST_METHOD']} {environ['PATH_INFO']}" if environ else "a request"
        self.log("warning", "the client left before the answer to %s: %r", request, error)


class QuietRequestHandler(LoggingRequestHandler):
    """Logs errors, not each request."""

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        """Say nothing."""


def listen(host: str, port: int) -> socket.socket:
    """A listening socket; raises OSError where the address can't be had. Port 0 is any free one."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(128)
    except OSError:
        listener.close()
        raise
    return listener


def serve(
    listener: socket.socket,
    settings: Settings,
    stop: threading.Event,
    *,
    log_requests: bool,
    record_calls: Path | None = None,
    prices: Prices | None = None,
    state: Path | None = None,
) -> None:
    """Answer requests until `stop` is set, then end every job.

    Raises:
        OSError: `record_calls` can't be written.
        RuntimeUnavailableError: jobs can't run the way the settings ask for.
        StateError: `state` can't be used.
    """
    gaps.fill(prices)
    scheduler = batch.install(settings)
    services: WSGIApplication = LogPages(
        PriceList(DomainDispatcherApplication(create_backend_app), prices)
    )
    store = Store(state, scheduler.lock) if state else None
    if store:
        store.load()
        scheduler.keep = store.keep
        services = Durable(services, store)
    batch.resume()
    app = Faults(Repeats(services), scheduler)
    recorder = Recorder(app, record_calls) if record_calls else None
    host, port = listener.getsockname()[:2]
    server = make_server(
        host,
        port,
        NoScripts(TaskMetadata(recorder or app, scheduler.runtime)),
        threaded=True,
        request_handler=LoggingRequestHandler if log_requests else QuietRequestHandler,
        fd=listener.fileno(),
    )
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        print(
            f"local cloud ready on {settings.endpoint_url} with {settings.vcpus} vCPUs, "
            f"{settings.memory_mib} MiB and {settings.gpus} declared GPUs, "
            f"jobs as {settings.jobs}",
            flush=True,
        )
        stop.wait()
    finally:
        server.shutdown()
        if recorder:
            recorder.close()
        scheduler.close()
        if store:
            store.close()
