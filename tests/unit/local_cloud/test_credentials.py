"""The file with the secret that signs requests."""

import os
import signal
import stat
from dataclasses import replace
from types import SimpleNamespace

import boto3
import pytest

from local_cloud import server
from local_cloud.__main__ import main
from local_cloud.batch.running.environment_variables import aws
from local_cloud.credentials import CredentialsError, read_or_make
from local_cloud.server import how_to_call
from tests.unit.local_cloud.conftest import SETTINGS

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
