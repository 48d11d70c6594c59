"""docker-compose.yaml on a real engine: Airflow on Postgres, with jobs as containers."""

import json
import os
import secrets
import shutil
import subprocess
from dataclasses import replace
from datetime import datetime

import httpx
import pytest

from batchmark.aws.result_bucket import REPORT_JSON
from batchmark.report.model import Report
from batchmark_job.suites import USER_SUITE, find_suite
from laptop.containers import backup, lifecycle
from laptop.containers.bucket import sha256
from laptop.containers.compose import (
    AIRFLOW,
    LOCAL_CLOUD,
    Compose,
    Deployment,
    engine_socket,
    external_variables,
)
from laptop.demo import DAG_ID
from laptop.errors import LaptopError
from laptop.processes import free_port
from laptop.stack import ROOT
from tests.containers.deployments import deployed

pytestmark = pytest.mark.timeout(2400)

RUN = "first"
SERVICES = ("postgres", *AIRFLOW, LOCAL_CLOUD)


@pytest.fixture(scope="module")
def running(engine, airflow_image, job_image, postgres_image, tmp_path_factory):
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("AIRFLOW_IMAGE", airflow_image)
        environment.setenv("JOB_IMAGE", job_image)
        environment.setenv("POSTGRES_IMAGE", postgres_image)
        deployment = Deployment(
            project=f"batchmark-test-{secrets.token_hex(3)}",
            port=free_port(),
            cloud_port=free_port(),
            folder=tmp_path_factory.mktemp("containers"),
        )
        with deployed(deployment, engine) as running:
            yield running
        left = {"label": f"com.docker.compose.project={deployment.project}"}
        assert engine.containers.list(all=True, filters=left) == []
        assert engine.networks.list(filters=left) == []
        assert engine.volumes.list(filters=left) == []


@pytest.fixture(scope="module")
def first_job(running):
    running.trigger(RUN, suite=USER_SUITE)
    running.wait_for_task(RUN, "deferred")
    return running.wait(lambda: next(iter(running.job_containers()), None), "job")


@pytest.fixture(scope="module")
def finished(running, first_job):
    """The state of a run during which every service was killed, those of Airflow after its data."""
    for killed in (("postgres", LOCAL_CLOUD), AIRFLOW):
        running.kill(*killed)
        for service in killed:
            running.wait_until_healed(service)
    return running.wait_for_end(RUN)


@pytest.fixture(scope="module")
def report(running, finished):
    return kept_report(running)


@pytest.fixture(scope="module")
def saved(running, finished, tmp_path_factory):
    folder = tmp_path_factory.mktemp("backups") / "monday"
    backup.backup(with_usual_ports(running.deployment), folder)
    return folder


@pytest.fixture
def started_with(monkeypatch):
    """Of all that `module` starts in the end, let only these services start: all have before."""

    def only(module, *services):
        asked = []

        def start(compose):
            asked.append(compose.deployment.project)
            compose("up", "--detach", "--wait", "--no-build", *services)

        monkeypatch.setattr(module, "wait_until_healthy", start)
        return asked

    return only


def test_all_of_it_is_healthy(running):
    found = {service: running.health(service) for service in SERVICES}
    assert found == dict.fromkeys(SERVICES, "healthy")


def test_docker_compose_alone_finds_everything_as_it_is(running):
    before = {service: running.container(service).id for service in SERVICES}
    env = {name: os.environ[name] for name in os.environ.keys() - external_variables()}
    settings = f"--env-file={running.deployment.settings}"
    command = ["docker", "compose", settings, "up", "--detach", "--wait", "--no-build"]
    subprocess.run(command, cwd=ROOT, env=env, check=True)
    assert before == {service: running.container(service).id for service in SERVICES}


def test_without_its_secrets_nothing_starts(running, tmp_path):
    other = Compose(Deployment(project=f"{running.deployment.project}-bare", folder=tmp_path))
    other.env.update(engine_socket(other))
    with pytest.raises(LaptopError, match=r"does not exist: .*/secrets/postgres_password"):
        other.output("up", "--detach", "--no-build", "postgres")
    other.output("down", "--volumes")


@pytest.mark.parametrize("service", SERVICES)
def test_no_container_is_root_or_can_become_it_or_changes_its_files(running, service):
    container = running.container(service)
    code, said = container.exec_run(["cat", "/proc/1/status"])
    assert code == 0
    status = dict(line.split(":\t", 1) for line in said.decode().splitlines() if ":\t" in line)
    assert "0" not in status["Uid"].split()
    assert int(status["CapEff"], 16) == int(status["CapBnd"], 16) == 0
    assert status["NoNewPrivs"] == "1"
    code, said = container.exec_run(["touch", "/usr/new"], user="0")
    assert (code, b"Read-only file system" in said) == (1, True)


def test_no_secret_is_in_an_image_or_shown_by_the_engine(running):
    folder = running.deployment.secrets
    values = [path.read_text() for path in folder.iterdir() if path.is_file()]
    values += json.loads((folder / "airflow_passwords").read_text()).values()
    shown = [
        running.compose.docker("inspect", running.container(service).id) for service in SERVICES
    ]
    image = os.environ["AIRFLOW_IMAGE"]
    shown += [
        running.compose.docker("history", "--no-trunc", image),
        running.compose.docker("image", "inspect", image),
    ]
    assert len(values) >= 6
    for value in values:
        assert not any(value in text for text in shown)


def test_airflow_is_reached_from_this_machine_alone_and_by_its_password(running):
    published = [
        binding["HostIp"]
        for service in SERVICES
        for bindings in running.container(service).ports.values()
        for binding in bindings or []
    ]
    assert set(published) == {"127.0.0.1"}
    guessed = {"username": "admin", "password": "admin"}
    assert httpx.post(f"{running.deployment.url}/auth/token", json=guessed).status_code == 401


def test_a_run_during_which_everything_was_killed_ends_well(running, finished):
    not_needed = {"rerun_once", "find_agreeing", "rerun_twice", "announce_regressions"}
    with running.airflow() as airflow:
        tasks = airflow.task_instances(DAG_ID, RUN)
        needed = [task for task in tasks if task["task_id"] not in not_needed]
        logs = [airflow.task_log(task) for task in needed if task["state"] != "success"]
    assert logs == []
    assert finished == "success"
    ended = max(datetime.fromisoformat(task["end_date"]) for task in needed)
    for service in SERVICES:
        started = running.container(service).attrs["State"]["StartedAt"]
        assert datetime.fromisoformat(started) < ended, f"{service} was killed after the run"
    assert len([task for task in needed if task["task_id"] == "run_benchmark"]) == 2
    assert [job["status"] for job in running.jobs()] == ["SUCCEEDED", "SUCCEEDED"], "none ran twice"


def test_the_report_has_the_rows_of_the_suite(report):
    (pair,) = report.pairs
    ours = [
        (row.workload, json.dumps(row.parameters, sort_keys=True), row.dtype)
        for row in (*pair.rows, *pair.uncompared)
    ]
    suite = [
        (point.workload, json.dumps(dict(point.parameters), sort_keys=True), point.dtype)
        for point in find_suite(USER_SUITE).points()
    ]
    assert sorted(ours) == sorted(suite)
    assert report.lost == ()


def test_jobs_are_containers_of_the_job_image(running, first_job):
    ours = running.engine.images.get(os.environ["JOB_IMAGE"])
    assert first_job.attrs["Image"] == ours.id
    assert first_job.attrs["HostConfig"]["NetworkMode"] == f"{running.deployment.project}_jobs"


def test_links_for_people_open_outside_the_containers(running, report):
    with running.airflow() as airflow:
        links = [
            airflow.links(task)["Log"] for task in airflow.instances(DAG_ID, RUN, "run_benchmark")
        ]
    links += [job.log_url for job in report.pairs[0].gpu.jobs]
    links += [job.document_url for job in report.pairs[0].cpu.jobs]
    for link in links:
        assert httpx.get(link).status_code == 200, link
    assert httpx.get(links[0]).text.count("\n") > 10


@pytest.mark.full_matrix
@pytest.mark.parametrize("service", SERVICES)
def test_a_service_killed_while_a_task_is_at_work_heals_and_the_run_ends_right(running, service):
    """A task at work is a process of the scheduler's container, and talks to the API server."""
    before = len(running.jobs())
    running.trigger(service, suite="own")
    running.wait_for_task(service, "running")
    running.kill(service)
    assert running.wait_for_end(service) == "success"
    running.wait_until_healed(service)
    assert len(running.jobs()) == before + 2


def test_a_backup_brings_back_what_was_lost(running, saved, report, started_with):
    with running.airflow() as airflow:
        airflow.change("DELETE", f"/dags/{DAG_ID}/dagRuns/{RUN}", {}).raise_for_status()
    with running.aws() as aws:
        store = running.store(aws, RUN)
        for key in store.keys("runs/"):
            aws.client("s3").delete_object(Bucket=store.bucket, Key=key)
    with pytest.raises(httpx.HTTPStatusError):
        running.state(RUN)

    asked = started_with(backup, AIRFLOW[0])
    backup.restore(with_usual_ports(running.deployment), saved)

    assert asked == [running.deployment.project]
    assert running.state(RUN) == "success"
    assert kept_report(running) == report


def test_a_damaged_dump_changes_nothing(running, saved, tmp_path):
    damaged = shutil.copytree(saved, tmp_path / "damaged")
    whole = (saved / "airflow.dump").read_bytes()
    (damaged / "airflow.dump").write_bytes(whole[: len(whole) // 2])
    record = json.loads((saved / "backup.json").read_text())
    honest = record | {"dump_sha256": sha256(damaged / "airflow.dump")}
    (damaged / "backup.json").write_text(json.dumps(honest))
    with pytest.raises(LaptopError, match="pg_restore"):
        backup.restore(running.deployment, damaged)
    assert running.state(RUN) == "success"


def test_runs_and_results_outlive_down_and_up(running, report, started_with):
    deployment = running.deployment
    lifecycle.down(deployment)
    assert running.compose.docker("ps", "-aq", "--filter", f"name={deployment.project}") == ""
    started_with(lifecycle, "postgres")
    lifecycle.up(deployment, build=False)
    psql = ("psql", "--username=airflow", "--tuples-only", "--no-align", "--command")
    query = "select run_id, state from dag_run"
    found = running.compose.output("exec", "-T", "postgres", *psql, query).splitlines()
    assert f"{RUN}|success" in found
    assert kept_report(running) == report
    with running.aws() as aws:
        assert len(running.store(aws, RUN).keys("history/")) == 1


def with_usual_ports(deployment):
    """As of somebody who does not say again which ports it has."""
    return replace(deployment, port=Deployment.port, cloud_port=Deployment.cloud_port)


def kept_report(running):
    with running.aws() as aws:
        store = running.store(aws, RUN)
        return Report.model_validate_json(store.read(store.prefix + REPORT_JSON))
