"""docker-compose.yaml on a real engine: Airflow on Postgres, with jobs as containers."""

import json
import os
import secrets
import subprocess
from dataclasses import replace

import httpx
import pytest

from batchmark.aws.result_bucket import REPORT_JSON
from batchmark.report.model import Report
from batchmark_job.suites import SUITES
from laptop.containers import backup, lifecycle
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
HEALTHY_SECONDS = 300
BUSY = 3.0
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
    running.trigger(RUN, suite="smoke")
    running.wait_for_task(RUN, "deferred")
    return running.wait(lambda: next(iter(running.job_containers()), None), "job", 60)


@pytest.fixture(scope="module")
def finished(running, first_job):
    """The state of a run during which every service was killed, one after the other."""
    killed = (LOCAL_CLOUD, "triggerer", "dag-processor", "api-server", "postgres", "scheduler")
    for service in killed:
        running.kill(service)
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


@pytest.fixture(scope="module")
def again(running, saved, report):
    lifecycle.down(running.deployment)
    left = running.compose.docker(
        "ps", "--all", "--quiet", "--filter", f"name={running.deployment.project}"
    )
    assert left == ""
    lifecycle.up(running.deployment, build=False)
    return running


def test_all_of_it_is_healthy_within_two_minutes(running):
    if (load := os.getloadavg()[1] / (os.cpu_count() or 1)) > BUSY:
        pytest.skip(f"{load:.1f} programs share each core, so no time means anything")
    assert running.seconds_until_healthy < HEALTHY_SECONDS


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
def test_no_container_is_root_or_can_become_it(running, service):
    container = running.container(service)
    code, said = container.exec_run(["cat", "/proc/1/status"])
    assert code == 0
    status = dict(line.split(":\t", 1) for line in said.decode().splitlines() if ":\t" in line)
    assert "0" not in status["Uid"].split()
    assert int(status["CapEff"], 16) == int(status["CapBnd"], 16) == 0
    assert status["NoNewPrivs"] == "1"


@pytest.mark.parametrize("service", SERVICES)
def test_a_containers_files_stay_as_they_are(running, service):
    code, said = running.container(service).exec_run(["touch", "/usr/new"], user="0")
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


def test_airflow_is_reached_from_this_machine_alone(running):
    published = [
        binding["HostIp"]
        for service in SERVICES
        for bindings in running.container(service).ports.values()
        for binding in bindings or []
    ]
    assert set(published) == {"127.0.0.1"}


def test_another_password_is_refused(running):
    answer = httpx.post(
        f"{running.deployment.url}/auth/token", json={"username": "admin", "password": "admin"}
    )
    assert answer.status_code == 401


def test_a_run_during_which_everything_was_killed_ends_well(running, finished):
    not_needed = {"rerun_once", "find_agreeing", "rerun_twice", "announce_regressions"}
    with running.airflow() as airflow:
        tasks = airflow.task_instances(DAG_ID, RUN)
        needed = [task for task in tasks if task["task_id"] not in not_needed]
        logs = [airflow.task_log(task) for task in needed if task["state"] != "success"]
    assert logs == []
    assert finished == "success"
    assert len([task for task in needed if task["task_id"] == "run_benchmark"]) == 2


def test_no_job_ran_twice(running, finished):
    states = [job["status"] for job in running.jobs()]
    assert states == ["SUCCEEDED", "SUCCEEDED"]


def test_the_report_has_the_rows_that_make_demo_has(report):
    """The demo's are the suite's own, each once: test_main_job sees to that."""
    (pair,) = report.pairs
    ours = [
        (row.workload, json.dumps(row.parameters, sort_keys=True), row.dtype)
        for row in (*pair.rows, *pair.uncompared)
    ]
    suite = [
        (point.workload, json.dumps(dict(point.parameters), sort_keys=True), point.dtype)
        for point in SUITES["smoke"].points()
    ]
    assert sorted(ours) == sorted(suite)
    assert report.lost == ()


def test_jobs_are_containers_of_the_job_image(running, first_job):
    ours = running.engine.images.get(os.environ["JOB_IMAGE"])
    assert first_job.attrs["Image"] == ours.id
    assert first_job.attrs["HostConfig"]["NetworkMode"] == f"{running.deployment.project}_jobs"


def test_links_for_people_open_outside_the_containers(running, finished, report):
    with running.airflow() as airflow:
        links = [
            airflow.links(task)["Log"]
            for task in airflow.task_instances(DAG_ID, RUN)
            if task["task_id"] == "run_benchmark"
        ]
    links += [job.log_url for job in report.pairs[0].gpu.jobs]
    links += [job.document_url for job in report.pairs[0].cpu.jobs]
    for link in links:
        assert httpx.get(link).status_code == 200, link
    assert httpx.get(links[0]).text.count("\n") > 10


def test_runs_and_results_outlive_down_and_up(again, report):
    assert again.state(RUN) == "success"
    assert kept_report(again) == report


def test_the_history_outlives_down_and_up(again):
    with again.aws() as aws:
        history = again.store(aws, RUN).keys("history/")
    assert len(history) == 1


def test_a_backup_brings_back_what_was_lost(again, saved, report):
    with again.airflow() as airflow:
        airflow.change("DELETE", f"/dags/{DAG_ID}/dagRuns/{RUN}", {}).raise_for_status()
    with again.aws() as aws:
        store = again.store(aws, RUN)
        for key in store.keys("runs/"):
            aws.client("s3").delete_object(Bucket=store.bucket, Key=key)
    with pytest.raises(httpx.HTTPStatusError):
        again.state(RUN)

    backup.restore(with_usual_ports(again.deployment), saved)

    assert again.state(RUN) == "success"
    assert kept_report(again) == report


def test_a_damaged_dump_changes_nothing(again, saved):
    dump = saved / "airflow.dump"
    whole = dump.read_bytes()
    record = saved / "backup.json"
    told = record.read_text()
    try:
        dump.write_bytes(whole[: len(whole) // 2])
        honest = json.loads(told) | {"dump_sha256": sha256(dump.read_bytes())}
        record.write_text(json.dumps(honest))
        with pytest.raises(LaptopError, match="pg_restore"):
            backup.restore(again.deployment, saved)
    finally:
        dump.write_bytes(whole)
        record.write_text(told)
    assert again.state(RUN) == "success"


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


def with_usual_ports(deployment):
    """As of somebody who does not say again which ports it has."""
    return replace(deployment, port=Deployment.port, cloud_port=Deployment.cloud_port)


def kept_report(running):
    with running.aws() as aws:
        store = running.store(aws, RUN)
        return Report.model_validate_json(store.read(store.prefix + REPORT_JSON))


def sha256(content):
    from hashlib import sha256 as digest

    return digest(content).hexdigest()
