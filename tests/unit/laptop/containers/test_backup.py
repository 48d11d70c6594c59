"""What a backup must be before it replaces anything; the bucket's way to files and back."""

import hashlib
import json
import os
from contextlib import closing
from dataclasses import replace

import pytest
from botocore.stub import Stubber

from laptop.aws import AwsClients
from laptop.containers import bucket
from laptop.containers.backup import backup, read_backup, restore
from laptop.containers.compose import Deployment, with_published_ports
from laptop.containers.secret_files import make_missing
from laptop.errors import LaptopError
from laptop.processes import free_port
from tests.builders.files import program, put
from tests.stand_ins.moto_account import moto_client
from tests.unit.laptop.containers.conftest import BUCKET, make_bucket

ODD_KEY = "raw/../odd key/ü.json"
# Its services: those whose records are in the file `services`. It has no database `airflow`.
DOCKER = """
folder=$(dirname "$0")
echo "$*" >>"$folder/asked"
case "$*" in
  "compose version"*) echo 2.26.1 ;;
  "context inspect"*) echo "unix://$folder" ;;
  *" ps --all"*) cat "$folder/services" ;;
  "volume ls"*) echo batchmark_cloud ;;
  *" up "*) test ! -e "$folder/broken" ;;
  *"drop database airflow "*) echo 'database "airflow" does not exist' >&2; exit 3 ;;
esac
"""


def sha256(content):
    return hashlib.sha256(content).hexdigest()


@pytest.fixture
def deployment(tmp_path):
    deployment = Deployment(folder=tmp_path / "containers")
    make_missing(deployment.secrets, database_is_there=False)
    return deployment


REPORT = {
    "key": "runs/a/report.html",
    "file": "0",
    "sha256": sha256(b"<p>"),
    "content_type": "text/html",
}


def listed(report):
    return json.dumps({"bucket": BUCKET, "objects": [report]})


@pytest.fixture
def saved(tmp_path, deployment):
    """A whole backup in format 1, which later versions must still restore."""
    record = {
        "format": 1,
        "version": "0.1.0",
        "made_at": "2026-11-22T12:00:00Z",
        "dump_sha256": sha256(b"PGDMP"),
        "fernet_key_sha256": sha256((deployment.secrets / "fernet_key").read_bytes()),
        "has_objects": True,
    }
    folder = put(tmp_path / "backup", "backup.json", json.dumps(record))
    put(folder, "airflow.dump", "PGDMP")
    put(folder, "objects/0", "<p>")
    return put(folder, "objects/objects.json", listed(REPORT))


def test_ports_are_those_of_the_containers_that_run(docker, deployment):
    api = {"Service": "api-server", "Publishers": [{"TargetPort": 8080, "PublishedPort": 8090}]}
    inside = {"Service": "postgres", "Publishers": [{"TargetPort": 5432, "PublishedPort": 0}]}
    ended = {"Service": "local-cloud", "Publishers": None}
    docker.joinpath("services").write_text("\n".join(map(json.dumps, (api, inside, ended))))
    found = with_published_ports(deployment)
    assert (found.port, found.cloud_port) == (8090, deployment.cloud_port)
    assert found.secrets == deployment.secrets


@pytest.mark.parametrize(
    ("damaged", "content", "message"),
    [
        ("backup.json", None, "is not a backup: it contains no backup.json"),
        ("backup.json", "{", "backup.json can't be read"),
        ("backup.json", '{"format": 2}', "backup.json can't be read: format"),
        ("airflow.dump", None, "airflow.dump is missing, or has changed"),
        ("airflow.dump", "PGDM", "airflow.dump is missing, or has changed"),
        ("objects/objects.json", None, "objects.json is missing"),
        ("objects/objects.json", "[]", "objects.json is not a valid list of objects"),
        ("objects/objects.json", listed(REPORT | {"file": "../airflow.dump"}), "is missing"),
        ("../containers/secrets/fernet_key", "another", "encrypted with a different key"),
        ("objects/0", None, "the content of runs/a/report.html, is missing"),
        ("objects/0", "<b>", "the content of runs/a/report.html, has changed"),
    ],
)
def test_a_damaged_backup_is_reported(saved, deployment, damaged, content, message):
    path = saved / damaged
    path.unlink() if content is None else path.write_text(content)
    with pytest.raises(LaptopError, match=message):
        read_backup(saved, deployment)


def running(service):
    return json.dumps({"Service": service, "State": "running", "ExitCode": 0, "Health": "healthy"})


@pytest.fixture
def docker(tmp_path, monkeypatch):
    """A Docker on the PATH, whose folder has what it was asked; Postgres runs, and no cloud."""
    folder = tmp_path / "bin"
    folder.mkdir()
    program(folder / "docker", DOCKER)
    (folder / "services").write_text(running("postgres"))
    monkeypatch.setenv("PATH", str(folder), prepend=os.pathsep)
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.setenv(name, "")
    for name in ("ENGINE_SOCKET", "ENGINE_GROUP"):
        monkeypatch.delenv(name, raising=False)
    return folder


def test_a_bucket_is_left_out_in_aws_alone_and_a_folder_that_holds_something_stays(
    docker, deployment, tmp_path
):
    new = tmp_path / "new"
    with pytest.raises(LaptopError, match="local cloud, which holds the bucket, is not running"):
        backup(deployment, new)
    assert not new.exists()
    backup(replace(deployment, profile="aws"), new)
    assert not read_backup(new, deployment).has_objects
    with pytest.raises(LaptopError, match="exists and is not empty: choose a new folder"):
        backup(deployment, new)


def test_a_database_elsewhere_is_neither_saved_nor_replaced(docker, deployment, saved, tmp_path):
    address = deployment.secrets / "sql_alchemy_conn"
    address.write_text("postgresql+psycopg2://airflow:secret@db.example.org/airflow\n")
    for command, folder in ((backup, tmp_path / "new"), (restore, saved)):
        with pytest.raises(LaptopError, match="sql_alchemy_conn points to your own database"):
            command(deployment, folder)
    assert "exec" not in (docker / "asked").read_text()


def test_a_restore_that_broke_off_between_the_two_databases_is_done_again(
    docker, deployment, saved
):
    record = json.loads((saved / "backup.json").read_text()) | {"has_objects": False}
    (saved / "backup.json").write_text(json.dumps(record))
    restore(deployment, saved)
    assert "rename to airflow" in (docker / "asked").read_text()


@pytest.fixture
def runs_cloud(docker):
    with (docker / "services").open("a") as services:
        services.write("\n" + running("local-cloud"))


def test_a_restored_bucket_holds_what_was_saved_and_nothing_else(
    deployment, runs_cloud, cloud_port, tmp_path, saved
):
    deployment = replace(deployment, cloud_port=cloud_port)
    with closing(AwsClients(deployment.aws)) as aws:
        make_bucket(aws)
        s3 = aws.client("s3")
        s3.put_object(Bucket=BUCKET, Key=ODD_KEY, Body=b"1", ContentType="x/y")
        s3.put_object(Bucket=BUCKET, Key="runs/a/report.json", Body=b"{}")
        backup(deployment, tmp_path / "new")
        s3.put_object(Bucket=BUCKET, Key="runs/a/report.json", Body=b"[]")
        s3.put_object(Bucket=BUCKET, Key="runs/b/report.json", Body=b"{}")
        s3.delete_object(Bucket=BUCKET, Key=ODD_KEY)
        restore(deployment, tmp_path / "new")
        assert sorted(bucket.keys(s3, BUCKET)) == [ODD_KEY, "runs/a/report.json"]
        assert s3.get_object(Bucket=BUCKET, Key="runs/a/report.json")["Body"].read() == b"{}"
        odd = s3.get_object(Bucket=BUCKET, Key=ODD_KEY)
        assert (odd["Body"].read(), odd["ContentType"]) == (b"1", "x/y")

        restore(deployment, saved)
        assert bucket.keys(s3, BUCKET) == ["runs/a/report.html"]
        report = s3.get_object(Bucket=BUCKET, Key="runs/a/report.html")
        assert (report["Body"].read(), report["ContentType"]) == (b"<p>", "text/html")


@pytest.mark.parametrize("broken", [False, True])
def test_a_cloud_that_fails_meanwhile_is_reported(
    docker, runs_cloud, deployment, saved, tmp_path, monkeypatch, broken
):
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    deployment = replace(deployment, cloud_port=free_port())
    failed = r"backing up the bucket failed.*cloud`: Could not connect"
    with pytest.raises(LaptopError, match=failed):
        backup(deployment, tmp_path / "new")
    with pytest.raises(LaptopError, match="is not a backup"):
        read_backup(tmp_path / "new", deployment)
    if broken:  # nothing starts afterwards either, and the first error is reported
        (docker / "broken").touch()
    with pytest.raises(LaptopError, match=r"restoring the bucket failed.*: Could not connect"):
        restore(deployment, saved)
    asked = (docker / "asked").read_text().splitlines()
    assert " up " in asked[-2 if broken else -1]  # then Compose is asked what failed


def test_a_bucket_that_takes_two_pages_to_list_is_saved_whole():
    first = {"Contents": [{"Key": "a"}], "IsTruncated": True, "NextContinuationToken": "next"}
    s3 = moto_client("s3", region_name="us-east-1")
    with Stubber(s3) as answers:
        answers.add_response("list_objects_v2", first, {"Bucket": BUCKET})
        answers.add_response(
            "list_objects_v2",
            {"Contents": [{"Key": "b"}]},
            {"Bucket": BUCKET, "ContinuationToken": "next"},
        )
        assert bucket.keys(s3, BUCKET) == ["a", "b"]
