"""The command line of the local cloud."""

import signal
import socket

import pytest

from local_cloud import server
from local_cloud.__main__ import endpoint_url, main, parse_arguments
from local_cloud.batch.running.runtime import RuntimeUnavailableError
from local_cloud.credentials import CredentialsError
from local_cloud.state import StateError
from tests.documented import arguments, documented
from tests.paths import ROOT
from tests.stand_ins.failing_calls import failing


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--gpus", "-1"], "--gpus: -1 is too small; the minimum is 0"),
        (["--vcpus", "0"], "--vcpus: 0 is too small; the minimum is 1"),
        (["--memory", "3"], "--memory: 3 is too small; the minimum is 4"),
        (["--vcpus", "many"], "--vcpus: 'many' is not a whole number"),
        (["--port", "70000"], "--port: 70000 is not a valid port; the maximum is 65535"),
        (["--stop-grace", "nan"], "--stop-grace: 'nan' is not a valid number of seconds"),
        (["--file-system-seconds", "-1"], "'-1' is not a valid number of seconds"),
        (["--job-dir", "/no/such/folder"], "'/no/such/folder' is not an existing folder"),
        (["--definition-dir", "mine"], "'mine' is not of the form DEFINITION=FOLDER"),
        (["--definition-dir", "mine=/no/such"], "'/no/such' is not an existing folder"),
        (["--prices", "/no/such/file"], "'/no/such/file' can't be read: No such file or directory"),
        (["--prices", "/dev/null"], "'/dev/null' is not a valid price table: JSONDecodeError("),
        (["--record-calls", "/no/such/folder/calls"], "is not a file path in an existing folder"),
        (["--record-calls", "/"], "'/' is not a file path in an existing folder"),
        (["--jobs", "pods"], "--jobs: invalid choice: 'pods'"),
        (["--job-network", "n"], "--job-network requires --jobs containers"),
        (["--jobs", "containers", "--job-network", "n"], "--job-network requires --job-endpoint"),
        (
            ["--job-endpoint", "cloud:5000"],
            "'cloud:5000' is not a URL of the form http://HOST:PORT",
        ),
        (["--job-endpoint", "http://h:1/p"], "'http://h:1/p' is not a URL of the form http://HO"),
        (["--credentials", "/no/such/folder/file"], "is not a file path in an existing folder"),
        (["--credentials", "f", "--any-credentials"], "set only one of them"),
        (["--no-such-option"], "--no-such-option"),
    ],
)
def test_a_wrong_option_is_reported_in_one_line(capsys, options, message):
    with pytest.raises(SystemExit) as ended:
        parse_arguments(options)
    assert ended.value.code == 2
    output = capsys.readouterr()
    (line,) = output.err.splitlines()
    assert message in line
    assert output.out == ""


def test_the_documented_options_are_there(monkeypatch):
    monkeypatch.chdir(ROOT)
    for command in documented("python -m local_cloud "):
        _module, name, *given = arguments(command)
        assert name == "local_cloud"
        assert parse_arguments(given).jobs == ("containers" if "--jobs" in given else "processes")


@pytest.fixture
def no_signals(monkeypatch):
    """Keeps `main` from replacing pytest's signal handlers."""
    monkeypatch.setattr(signal, "signal", lambda *_: None)


def test_a_port_in_use_is_reported_in_one_line(capsys, no_signals):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert main(["--port", str(port)]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert f"cannot listen on 127.0.0.1:{port}: the port is in use" in line


@pytest.mark.parametrize("error", [CredentialsError, RuntimeUnavailableError, StateError])
def test_a_failure_to_start_is_reported_in_one_line(capsys, no_signals, monkeypatch, error):
    monkeypatch.setattr(server, "serve", failing(error("this is why")))
    assert main(["--port", "0"]) == 2
    output = capsys.readouterr()
    assert (output.out, output.err) == ("", "local_cloud: this is why\n")


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("127.0.0.1", "http://127.0.0.1:80"),
        ("localhost", "http://localhost:80"),
        ("0.0.0.0", "http://127.0.0.1:80"),  # noqa: S104
        ("::", "http://[::1]:80"),
        ("::1", "http://[::1]:80"),
    ],
)
def test_jobs_reach_the_server_on_this_machine(host, expected):
    assert endpoint_url(host, 80) == expected
