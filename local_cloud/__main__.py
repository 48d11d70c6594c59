"""The local cloud's command line: `python -m local_cloud` runs in the foreground until stopped."""

from __future__ import annotations

import argparse
import errno
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NoReturn
from urllib.parse import urlsplit

import psutil

from local_cloud.batch.jobs import host_access
from local_cloud.batch.running.runtime import RuntimeUnavailableError
from local_cloud.credentials import CredentialsError, read_or_make
from local_cloud.prices import Prices, read_prices
from local_cloud.settings import Settings
from local_cloud.state import StateError

MIB = 2**20
USAGE_ERROR = 2


class OneLineParser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        self.exit(USAGE_ERROR, f"local_cloud: {message}\n")


def at_least(minimum: int) -> Callable[[str], int]:
    """Return a function that parses whole numbers and rejects those below `minimum`."""

    def parse(text: str) -> int:
        try:
            number = int(text)
        except ValueError:
            raise argparse.ArgumentTypeError(f"{text!r} is not a whole number") from None
        if number < minimum:
            raise argparse.ArgumentTypeError(f"{number} is too small; the minimum is {minimum}")
        return number

    return parse


def port_number(text: str) -> int:
    """Parse a TCP port number; 0 means any free port."""
    number = at_least(0)(text)
    if number > 65_535:
        raise argparse.ArgumentTypeError(f"{number} is not a valid port; the maximum is 65535")
    return number


def seconds(text: str) -> float:
    """Parse a non-negative duration in seconds."""
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not 0 <= number < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is not a valid number of seconds")
    return number


def folder(text: str) -> Path:
    path = Path(text).resolve()
    if not path.is_dir():
        raise argparse.ArgumentTypeError(f"{text!r} is not an existing folder")
    return path


def folder_of_definition(text: str) -> tuple[str, Path]:
    name, equals, path = text.partition("=")
    if not name or not equals:
        raise argparse.ArgumentTypeError(f"{text!r} is not of the form DEFINITION=FOLDER")
    return name, folder(path)


def file_to_write(text: str) -> Path:
    path = Path(text).resolve()
    if not path.parent.is_dir() or path.is_dir():
        raise argparse.ArgumentTypeError(f"{text!r} is not a file path in an existing folder")
    return path


def http_url(text: str) -> str:
    """Parse an HTTP or HTTPS URL that has no path."""
    parts = urlsplit(text)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.path.strip("/"):
        raise argparse.ArgumentTypeError(f"{text!r} is not a URL of the form http://HOST:PORT")
    return text.rstrip("/")


def price_file(text: str) -> Prices:
    try:
        return read_prices(Path(text))
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r} {error}") from error


def endpoint_url(host: str, port: int) -> str:
    """Return the URL at which clients on this machine reach the server."""
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104 - not bound here
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def parse_arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = OneLineParser(prog="python -m local_cloud", description="Emulate AWS on one machine.")
    parser.add_argument(
        "--host", default="127.0.0.1", help="address to listen on (default: %(default)s)"
    )
    parser.add_argument(
        "--port",
        type=port_number,
        default=5000,
        help="port to listen on, or 0 for any free port (default: %(default)s)",
    )
    parser.add_argument(
        "--gpus",
        type=at_least(0),
        default=0,
        help="number of GPUs in the job pool (default: %(default)s)",
    )
    parser.add_argument(
        "--vcpus",
        type=at_least(1),
        default=os.cpu_count() or 1,
        help="number of vCPUs in the job pool (default: all %(default)s on this machine)",
    )
    parser.add_argument(
        "--memory",
        metavar="MIB",
        type=at_least(4),
        default=psutil.virtual_memory().total // MIB,
        help="memory in the job pool (default: all %(default)s MiB on this machine)",
    )
    parser.add_argument(
        "--jobs",
        choices=("processes", "containers"),
        default="processes",
        help="how to run jobs (default: %(default)s); containers need a Docker engine",
    )
    parser.add_argument(
        "--job-network",
        metavar="NAME",
        help="Docker network that containers join (default: the host's network)",
    )
    parser.add_argument(
        "--job-endpoint",
        metavar="URL",
        type=http_url,
        help="URL at which jobs reach this server (default: the address it listens on)",
    )
    parser.add_argument(
        "--job-dir",
        type=folder,
        default=Path.cwd(),
        help="working directory for jobs that run as processes (default: the current directory)",
    )
    parser.add_argument(
        "--definition-dir",
        dest="definition_dirs",
        metavar="DEFINITION=FOLDER",
        type=folder_of_definition,
        action="append",
        default=[],
        help="working directory for jobs with this job definition, instead of --job-dir; may be "
        "repeated",
    )
    parser.add_argument(
        "--copy-job-dir",
        action="store_true",
        help="start each job in a fresh copy of its working directory, so that it does not see "
        "other jobs' files",
    )
    parser.add_argument(
        "--stop-grace",
        metavar="SECONDS",
        type=seconds,
        default=30.0,
        help="time between SIGTERM and SIGKILL when a job is stopped (default: %(default)s, as in "
        "AWS)",
    )
    parser.add_argument(
        "--file-system-seconds",
        metavar="SECONDS",
        type=seconds,
        default=2.0,
        help="how long an FSx file system stays CREATING or DELETING (default: %(default)s; in AWS "
        "it takes minutes)",
    )
    parser.add_argument(
        "--allow-short-limits",
        action="store_true",
        help="accept timeouts below 60 s, which AWS rejects",
    )
    parser.add_argument(
        host_access.FLAG,
        action="store_true",
        help="accept containers that could gain root on the Docker host: privileged ones, and "
        "those that use devices other than NVIDIA's or host folders not meant for jobs",
    )
    parser.add_argument(
        "--state",
        metavar="FOLDER",
        type=folder,
        help="keep the state in this folder and resume from it (default: state is lost on exit)",
    )
    parser.add_argument(
        "--credentials",
        metavar="FILE",
        type=file_to_write,
        help="AWS credentials file with the secret that clients sign requests with; created if "
        "missing (default: a file in the --state folder or in a temporary one)",
    )
    parser.add_argument(
        "--any-credentials",
        action="store_true",
        help="don't check signatures; any user of this machine can then run commands as you",
    )
    parser.add_argument("--log-requests", action="store_true", help="log each request to stderr")
    parser.add_argument(
        "--record-calls",
        metavar="FILE",
        type=file_to_write,
        help="append one JSON line per request to this file: caller, operation and resources",
    )
    parser.add_argument(
        "--prices",
        metavar="FILE",
        type=price_file,
        help="price table for the Price List API and Spot price history (default: no prices)",
    )
    arguments = parser.parse_args(argv)
    if arguments.any_credentials and arguments.credentials is not None:
        parser.error("--credentials and --any-credentials can't be combined: set only one of them")
    if arguments.job_network is not None:
        if arguments.jobs != "containers":
            parser.error(
                "--job-network requires --jobs containers; processes use the host's network"
            )
        if arguments.job_endpoint is None:
            parser.error(
                "--job-network requires --job-endpoint, the URL of this server on that network"
            )
    return arguments


@contextmanager
def credentials_file(arguments: argparse.Namespace) -> Iterator[Path | None]:
    """Yield the path of the credentials file, or None if signatures are not checked."""
    if arguments.any_credentials:
        yield None
    elif arguments.credentials or arguments.state:
        yield arguments.credentials or arguments.state / "credentials"
    else:
        with TemporaryDirectory(prefix="local-cloud-") as folder:
            yield Path(folder) / "credentials"


def settings_of(arguments: argparse.Namespace, port: int, credentials: Path | None) -> Settings:
    """Build the settings from the command-line arguments.

    Raises:
        CredentialsError: the credentials file can't be used.
    """
    url = endpoint_url(arguments.host, port)
    return Settings(
        endpoint_url=url,
        job_endpoint_url=arguments.job_endpoint or url,
        gpus=arguments.gpus,
        vcpus=arguments.vcpus,
        memory_mib=arguments.memory,
        job_dir=arguments.job_dir,
        definition_dirs=dict(arguments.definition_dirs),
        copy_job_dir=arguments.copy_job_dir,
        secret=read_or_make(credentials) if credentials else None,
        credentials=credentials,
        jobs=arguments.jobs,
        job_network=arguments.job_network,
        stop_grace_seconds=arguments.stop_grace,
        allow_short_limits=arguments.allow_short_limits,
        allow_host_access=arguments.allow_host_access,
        file_system_seconds=arguments.file_system_seconds,
    )


def main(argv: Sequence[str] | None = None) -> int:
    arguments = parse_arguments(argv)
    stop = threading.Event()
    for signal_number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(signal_number, lambda *_: stop.set())
    # Imported late: importing moto takes a second, and wrong options should be reported before.
    from local_cloud import server

    try:
        listener = server.listen(arguments.host, arguments.port)
    except OSError as error:
        where = f"{arguments.host}:{arguments.port}"
        taken = error.errno == errno.EADDRINUSE
        hint = (
            ("the port is in use; stop the program that uses it or choose another --port")
            if taken
            else error.strerror
        )
        print(f"local_cloud: cannot listen on {where}: {hint}", file=sys.stderr)
        return USAGE_ERROR

    with listener, credentials_file(arguments) as path:
        try:
            server.serve(
                listener,
                settings_of(arguments, listener.getsockname()[1], path),
                stop,
                log_requests=arguments.log_requests,
                record_calls=arguments.record_calls,
                prices=arguments.prices,
                state=arguments.state,
            )
        except (CredentialsError, RuntimeUnavailableError, StateError) as error:
            print(f"local_cloud: {error}", file=sys.stderr)
            return USAGE_ERROR
    return 0


if __name__ == "__main__":
    sys.exit(main())
