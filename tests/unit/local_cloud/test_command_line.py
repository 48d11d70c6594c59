"""The command line of the local cloud, and the file with the secret that signs requests."""

import os
import signal
import socket
import stat
from dataclasses import replace
from types import SimpleNamespace

import boto3
import pytest

from local_cloud import server
from local_cloud.__main__ import endpoint_url, main, parse_arguments
from local_cloud.batch.running.environment_variables import aws
from local_cloud.batch.running.runtime import RuntimeUnavailableError
from local_cloud.credentials import CredentialsError, read_or_make
from local_cloud.server import how_to_call
from local_cloud.state import StateError
from tests.documented import arguments, documented
from tests.paths import ROOT
from tests.stand_ins.failing_calls import failing
from tests.unit.local_cloud.conftest import SETTINGS


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


LAUNCH = SimpleNamespace(region="us-east-1", record=SimpleNamespace(task_id="0" * 32))


@pytest.fixture
def path(tmp_path):
    return tmp_path / "credentials"


def test_a_new_file_is_its_owners_alone_and_the_next_server_reads_it(path):
    before = os.umask(0)
    try:
        secret = read_or_make(path)
    finally:
        os.umask(before)
    assert len(secret) >= 40
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert read_or_make(path) == secret != read_or_make(path.with_name("another"))


def test_clients_of_aws_read_it(path, monkeypatch):
    secret = read_or_make(path)
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(path))
    found = boto3.Session().get_credentials()
    assert (found.access_key, found.secret_key) == ("local", secret)


@pytest.mark.parametrize(
    "content",
    [b"", b"[default]\n", b"[default]\naws_secret_access_key =\n", b"x", b"\xff", b"[other]\na=b"],
)
def test_a_file_without_a_secret_is_named(path, content):
    path.write_bytes(content)
    with pytest.raises(CredentialsError, match=f"{path} has no aws_secret_access_key in its"):
        read_or_make(path)
    assert path.read_bytes() == content


def test_a_file_that_cant_be_used_is_named(tmp_path):
    with pytest.raises(CredentialsError, match=f"{tmp_path} can't be read: Is a directory"):
        read_or_make(tmp_path)
    missing = tmp_path / "none" / "credentials"
    with pytest.raises(CredentialsError, match=f"{missing} can't be written: No such file"):
        read_or_make(missing)


@pytest.fixture
def settings(path):
    return replace(SETTINGS, secret="the secret", credentials=path)


def test_a_job_gets_the_secret_and_no_log_does_and_that_none_is_checked_is_said(settings):
    assert aws(LAUNCH, settings)["AWS_SECRET_ACCESS_KEY"] == "the secret"
    assert "the secret" not in repr(settings)
    assert how_to_call(settings) == (
        f"to use it, export AWS_SHARED_CREDENTIALS_FILE={settings.credentials}"
    )
    unchecked = replace(settings, secret=None, credentials=None)
    assert how_to_call(unchecked).startswith(
        "any credentials are accepted, so every user of this machine"
    )
    assert aws(LAUNCH, unchecked)["AWS_SECRET_ACCESS_KEY"] == "job"


@pytest.fixture
def served_with(monkeypatch):
    """Runs the command line; the settings that it serves with, and whether their file was there."""
    monkeypatch.setattr(signal, "signal", lambda *_: None)

    def run(*options):
        seen = []

        def serve(_listener, settings, _stop, **_):
            seen.append((settings, settings.credentials and settings.credentials.is_file()))

        monkeypatch.setattr(server, "serve", serve)
        code = main(["--port", "0", *options])
        return (code, *seen)

    return run


def test_the_file_is_temporary_stays_with_the_state_or_is_named(served_with, tmp_path, path):
    code, (settings, was_there) = served_with()
    assert (code, was_there) == (0, True)
    assert settings.secret
    assert not settings.credentials.parent.exists()
    _, (first, _) = served_with("--state", str(tmp_path))
    _, (second, _) = served_with("--state", str(tmp_path))
    assert first.credentials == second.credentials == path
    assert first.secret == second.secret
    state, named = tmp_path / "state", tmp_path / "named"
    state.mkdir()
    _, (settings, _) = served_with("--credentials", str(named), "--state", str(state))
    assert settings.secret == read_or_make(named)
    _, (settings, _) = served_with("--any-credentials", "--state", str(state))
    assert (settings.secret, settings.credentials) == (None, None)
    assert list(state.iterdir()) == []
