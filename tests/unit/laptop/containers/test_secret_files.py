"""Files that other users of this machine can't read: a stack's, and a deployment's secrets."""

import json
import os
import stat
import subprocess
from unittest.mock import Mock

import pytest
from cryptography.fernet import Fernet
from sqlalchemy.engine import make_url

from laptop.containers import secret_files
from laptop.containers.secret_files import aws_folder, cloud_secret, make_missing
from laptop.errors import LaptopError
from laptop.private_files import make_private, write_private
from laptop.stack import ROOT


@pytest.fixture(autouse=True)
def no_umask():
    """Nor is one that a test sets left to others."""
    before = os.umask(0)
    yield
    os.umask(before)


def mode_of(path):
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture
def folder(tmp_path):
    made = tmp_path / "secrets"
    make_missing(made, database_is_there=False)
    return made


def contents(folder):
    return {path.name: path.read_text() for path in folder.iterdir()}


def test_no_two_deployments_share_a_secret_and_what_is_there_stays(folder, tmp_path):
    make_missing(tmp_path / "other", database_is_there=False)
    before, theirs = contents(folder), contents(tmp_path / "other")
    assert before.keys() == theirs.keys()
    assert not set(before.values()) & set(theirs.values())
    (folder / "jwt_secret").unlink()
    make_missing(folder, database_is_there=True)
    after = contents(folder)
    assert after.pop("jwt_secret") != before.pop("jwt_secret")
    assert after == before


def test_each_has_the_form_that_its_reader_wants_and_only_the_owner_gets_at_it(folder):
    assert mode_of(folder) == 0o700
    assert set(map(mode_of, folder.iterdir())) == {0o644}, "any container may read it"
    made = contents(folder)
    Fernet(made["fernet_key"])
    url = make_url(made["sql_alchemy_conn"])
    assert url.password == made["postgres_password"]
    assert (url.drivername, url.host, url.database) == (
        "postgresql+psycopg2",
        "postgres",
        "airflow",
    )
    assert list(json.loads(made["airflow_passwords"])) == ["admin"]
    assert len(made["jwt_secret"]) >= 64
    secret = cloud_secret(folder)
    assert made["local_cloud_credentials"] == (
        f"[default]\naws_access_key_id = airflow\naws_secret_access_key = {secret}\n"
    )


def test_a_secret_that_is_gone_from_beside_its_cloud_or_database_is_reported(folder):
    (folder / "local_cloud_credentials").unlink()
    with pytest.raises(LaptopError, match=r"local_cloud_credentials can't be read .*; `make co"):
        cloud_secret(folder)
    (folder / "postgres_password").unlink()
    with pytest.raises(LaptopError, match="postgres_password, or delete the database"):
        make_missing(folder, database_is_there=True)
    assert not (folder / "postgres_password").exists()


def test_a_file_is_never_half_written(folder, monkeypatch):
    monkeypatch.setattr(type(folder), "rename", Mock(side_effect=OSError("disk full")))
    (folder / "jwt_secret").unlink()
    with pytest.raises(OSError, match="disk full"):
        make_missing(folder, database_is_there=True)
    assert not (folder / "jwt_secret").exists()


def test_what_one_user_logs_another_of_the_group_may_add_to():
    entrypoint = ROOT / "containers" / "entrypoint.sh"
    said = subprocess.run(
        ["sh", str(entrypoint), "sh", "-c", "umask"], capture_output=True, text=True, check=True
    )
    assert said.stdout.strip() in ("0002", "002")


class TestAwsCredentials:
    def test_keys_of_the_environment_become_a_file(self, tmp_path):
        """A container gets at it whatever the caller's umask."""
        env = {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "s", "AWS_SESSION_TOKEN": "t"}
        os.umask(0o077)
        found, user = aws_folder(tmp_path / "secrets", env)
        paths = (found.parent, found, found / "credentials")
        assert list(map(mode_of, paths)) == [0o700, 0o755, 0o644]
        assert (found / "credentials").read_text() == (
            "[default]\naws_access_key_id = a\naws_secret_access_key = s\naws_session_token = t\n"
        )
        assert user == "10001:10001"

    def test_the_callers_folder_is_read_as_the_caller(self, tmp_path, monkeypatch):
        monkeypatch.setattr(secret_files.os, "getuid", lambda: 1234)
        (tmp_path / ".aws").mkdir()
        found, user = aws_folder(tmp_path / "secrets", {"HOME": str(tmp_path)})
        assert (found, user) == (tmp_path / ".aws", "1234:10001")

    @pytest.mark.parametrize(
        ("env", "has_folder", "said"),
        [
            ({"AWS_ACCESS_KEY_ID": "a"}, True, "without AWS_SECRET_ACCESS_KEY: set both"),
            ({}, True, "none of the containers runs as root"),
            ({}, False, "no AWS credentials found: set AWS_ACCESS_KEY_ID"),
        ],
    )
    def test_what_no_container_could_use_is_reported(
        self, tmp_path, monkeypatch, env, has_folder, said
    ):
        monkeypatch.setattr(secret_files.os, "getuid", lambda: 0)
        if has_folder:
            (tmp_path / ".aws").mkdir()
        with pytest.raises(LaptopError, match=said):
            aws_folder(tmp_path / "secrets", {"HOME": str(tmp_path)} | env)


def test_a_file_and_a_folder_are_their_owners_alone_even_in_the_place_of_open_ones(tmp_path):
    path = tmp_path / "secret"
    path.write_text("old")
    assert mode_of(path) == 0o666
    (tmp_path / ".secret").write_text("half")  # a killed write left it
    write_private(path, "new")
    assert (path.read_text(), mode_of(path)) == ("new", 0o600)
    write_private(path, "readable", 0o644)
    assert (path.read_text(), mode_of(path)) == ("readable", 0o644)
    assert list(tmp_path.iterdir()) == [path]
    make_private(tmp_path / "a" / "b")
    assert mode_of(tmp_path / "a" / "b") == 0o700
    (tmp_path / "a" / "b").chmod(0o777)
    make_private(tmp_path / "a" / "b")
    assert mode_of(tmp_path / "a" / "b") == 0o700
