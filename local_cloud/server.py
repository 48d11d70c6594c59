"""Runs moto's server with its gaps filled and a Batch service that really runs jobs."""

from __future__ import annotations

import functools
import os
import socket
import sys
import threading
import traceback
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from wsgiref.types import WSGIApplication, WSGIEnvironment

from moto.moto_server.werkzeug_app import (
    DomainDispatcherApplication,
    MotoRequestHandler,
    create_backend_app,
)
from werkzeug.serving import make_server

from local_cloud import gaps
from local_cloud.batch.api import models as batch
from local_cloud.batch.ecs import answers
from local_cloud.batch.scheduling.scheduler import Scheduler
from local_cloud.browser_guard import BrowserGuard
from local_cloud.clock import later
from local_cloud.fault_control import Faults
from local_cloud.file_systems import models as file_systems
from local_cloud.gaps import logs
from local_cloud.gaps.pricing import PriceList
from local_cloud.log_pages import LogPages
from local_cloud.metadata import HostMetadata, TaskMetadata
from local_cloud.prices import Prices
from local_cloud.recorder import Recorder
from local_cloud.retried_requests import RetriedRequests
from local_cloud.settings import Settings
from local_cloud.signatures import SignedRequests
from local_cloud.state.store import Store, keep_logs
from local_cloud.state.write_through import WriteThrough

LINGER_SECONDS = 2.0  # judgment: a client that keeps its end open holds a thread as long
SHUTDOWN_SECONDS = 30.0  # judgment: three times as long as the scheduler takes at most
SAYING_SECONDS = 2  # judgment: if nobody reads stderr, printing never ends
LOOK_SECONDS = 0.5  # a signal delivered to another thread does not wake the main thread


class Dispatcher(DomainDispatcherApplication):
    """Remembers each host's service: moto would list its own folder with every request."""

    @functools.lru_cache  # noqa: B019 - a process has one
    def get_backend_for_host(self, host: str | None) -> Any:
        return super().get_backend_for_host(host)


class LoggingRequestHandler(MotoRequestHandler):
    """Logs each request, and closes connections in two stages (RFC 9112, section 9.6).

    It closes the sending side first, and the socket once the client has closed its end. Otherwise
    a response can get lost, and a retried `Create...` would fail because the resource exists.
    """

    def finish(self) -> None:
        super().finish()
        with suppress(OSError):
            self.connection.shutdown(socket.SHUT_WR)
            self.connection.settimeout(LINGER_SECONDS)
            while self.connection.recv(65_536):
                pass

    def connection_dropped(
        self, error: BaseException, environ: WSGIEnvironment | None = None
    ) -> None:
        request = f"{environ['REQUEST_METHOD']} {environ['PATH_INFO']}" if environ else "a request"
        self.log("warning", "the client disconnected before the response to %s: %r", request, error)


class QuietRequestHandler(LoggingRequestHandler):
    """Logs errors but not individual requests."""

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        """Log nothing."""


def listen(host: str, port: int) -> socket.socket:
    """Open a listening socket, on any free port if `port` is 0; raise OSError if that fails."""
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


def hosts_of(settings: Settings) -> set[str]:
    """Return the host names and addresses at which clients and jobs reach the server."""
    urls = (settings.endpoint_url, settings.job_endpoint_url)
    return {urlsplit(url).hostname or "" for url in urls}


def with_own_paths(
    services: WSGIApplication, scheduler: Scheduler, settings: Settings
) -> WSGIApplication:
    """Wrap the services in middleware for fault injection, signature checks and public pages."""
    app: WSGIApplication = Faults(services, scheduler)
    if settings.secret is not None:
        hint = f"find it in {settings.credentials}"
        app = SignedRequests(app, settings.secret, hint)
    return LogPages(app)


def how_to_call(settings: Settings) -> str:
    """Return a line that tells users which credentials clients need."""
    if settings.secret is None:
        return "any credentials are accepted, so every user of this machine can run commands as you"
    return f"to use it, export AWS_SHARED_CREDENTIALS_FILE={settings.credentials}"


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
    """Serve requests until `stop` is set, then end all jobs.

    If shutting down takes longer than 30 seconds, the process prints its threads' stacks and exits
    with code 1.

    Raises:
        OSError: `record_calls` can't be written.
        RuntimeUnavailableError: jobs can't run as the settings require.
        StateError: `state` can't be used.
    """
    # Terraform attaches AWS's managed policies by name. Not set at import: in tests, moto would
    # parse all 1,580 for each new backend.
    os.environ["MOTO_IAM_LOAD_MANAGED_POLICIES"] = "true"
    gaps.fill(prices)
    scheduler = batch.install(settings)
    answers.install()
    folders = file_systems.install(
        settings.file_system_seconds, state / "file-systems" if state else None
    )
    services: WSGIApplication = PriceList(Dispatcher(create_backend_app), prices)
    store = Store(state, scheduler.lock) if state else None
    if store and state:
        keep_logs(state)
        store.load()
        logs.delete_unused()
        scheduler.save = store.save_jobs
        services = WriteThrough(services, store)
    file_systems.resume()
    batch.resume()
    app = with_own_paths(RetriedRequests(services), scheduler, settings)
    recorder = Recorder(app, record_calls) if record_calls else None
    host, port = listener.getsockname()[:2]
    server = make_server(
        host,
        port,
        BrowserGuard(
            HostMetadata(
                TaskMetadata(recorder or app, scheduler.runtime, scheduler.address),
                scheduler.reclaim_time,
                scheduler.runs_task,
            ),
            hosts_of(settings),
        ),
        threaded=True,
        request_handler=LoggingRequestHandler if log_requests else QuietRequestHandler,
        fd=listener.fileno(),
    )
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        print(
            f"local cloud ready on {settings.endpoint_url} with {settings.vcpus} vCPUs, "
            f"{settings.memory_mib} MiB and {settings.gpus} declared GPUs, running jobs as "
            f"{settings.jobs}\n{how_to_call(settings)}",
            flush=True,
        )
        while not stop.wait(LOOK_SECONDS):
            pass
    finally:
        watchdog = later(SHUTDOWN_SECONDS, end_stuck)
        server.shutdown()
        if recorder:
            recorder.close()
        try:
            scheduler.close()
        finally:
            folders.close()
            if store:
                store.close()
            watchdog.cancel()


def end_stuck() -> None:
    """Print all threads' stacks, if possible, and end the process.

    This avoids faulthandler, which has crashed while reading the frames of running threads.
    """
    saying = threading.Thread(target=say_where_threads_are, daemon=True)
    saying.start()
    saying.join(SAYING_SECONDS)
    os._exit(1)


def say_where_threads_are() -> None:
    for thread, frame in sys._current_frames().items():
        print(f"thread {thread}:\n{''.join(traceback.format_stack(frame))}", file=sys.stderr)
    sys.stderr.flush()
