"""Batch jobs as real containers."""

import json

import pytest

from local_cloud.batch.running.log_stream import MAX_EVENT_BYTES
from tests.containers.host_processes import kill
from tests.containers.images import PYTHON as IMAGE
from tests.containers.jobs import (
    DEAF,
    FOR_EVER,
    addresses,
    containers_of,
    run_nodes,
    running_containers,
    start,
)
from tests.waiting import wait_for

MIB = 2**20
NOTHING = "127.0.0.1:1/nothing:here"  # a registry that refuses connections


@pytest.fixture(scope="module")
def cloud(client):
    with start("--allow-host-access") as started:
        yield started
        wait_for(lambda: not containers_of(client, started), "removal of the last job's container")


@pytest.fixture
def submit(cloud):
    """Submit a Python program, or a command, with these container properties."""

    def submitted(program, *, memory=64, job=None, **container):
        command = ["python", "-c", program] if isinstance(program, str) else program
        definition = cloud.define(command, memory=memory, container={"image": IMAGE, **container})
        return cloud.submit(definition, **(job or {}))

    return submitted


def seen_out_of_memory(client, job_id):
    """The job's running container, once the engine knows of a process killed for memory."""
    running = running_containers(client, job_id)
    return next((each for each in running if each.attrs["State"]["OOMKilled"]), None)


def test_exit_codes(cloud, submit):
    init = {"linuxParameters": {"initProcessEnabled": True}}
    programs = {"pass": 0, "raise SystemExit(3)": 3, "import os; os.kill(os.getpid(), 9)": 137}
    for job_id, code in [(submit(program, **init), code) for program, code in programs.items()]:
        job = cloud.finish(job_id)
        assert job["container"]["exitCode"] == code
        assert job["status"] == ("FAILED" if code else "SUCCEEDED")
        assert job["statusReason"] == "Essential container in task exited"
        assert job["createdAt"] <= job["startedAt"] <= job["stoppedAt"]


def test_ecs_knows_a_tasks_image(cloud, submit, client):
    task_arn = cloud.finish(submit("pass"))["container"]["taskArn"]
    cluster = task_arn.split("/")[-2]
    (task,) = cloud.client("ecs").describe_tasks(cluster=cluster, tasks=[task_arn])["tasks"]
    (container,) = task["containers"]
    image = client.images.get(IMAGE).attrs
    known = [each.rpartition("@")[2] for each in image["RepoDigests"]] or [image["Id"]]
    assert container["imageDigest"] in known
    assert "pullStartedAt" not in task


def test_output_is_logged_line_by_line(cloud, submit):
    program = (
        "import sys\n"
        "print('first', flush=True)\n"
        "print('x' * 300_000, flush=True)\n"
        "print('error', file=sys.stderr, flush=True)\n"
        "print('without an end', end='')"
    )
    lines = cloud.output(submit(program))
    lines.remove("error")  # the streams may overtake each other, as in AWS; no line is mixed
    first, *parts, last = lines
    assert (first, last) == ("first", "without an end")
    assert [len(part) for part in parts] == [MAX_EVENT_BYTES, 300_000 - MAX_EVENT_BYTES]


def test_environment_is_batchs_the_jobs_and_the_images(cloud, submit, client):
    show = "import json, os; print(json.dumps(dict(os.environ)))"
    job_id = submit(show, environment=[{"name": "GIVEN", "value": "a"}])
    seen = json.loads("".join(cloud.output(job_id)))
    image = dict(
        each.split("=", 1) for each in client.images.get(IMAGE).attrs["Config"]["Env"] or []
    )
    metadata = seen.pop("ECS_CONTAINER_METADATA_URI_V4")
    assert metadata.startswith(f"{cloud.endpoint_url}/v4/")
    host_metadata = seen.pop("AWS_EC2_METADATA_SERVICE_ENDPOINT")
    assert host_metadata.startswith(f"{cloud.endpoint_url}/_host/")
    assert seen.pop("HOSTNAME")
    assert seen.pop("HOME")
    # Python's own coercion of the C locale, where the image sets none.
    assert seen.pop("LC_CTYPE", "C.UTF-8") == "C.UTF-8"
    assert seen == image | {
        "PATH": seen["PATH"],
        "GIVEN": "a",
        "AWS_BATCH_JOB_ID": job_id,
        "AWS_BATCH_JOB_ATTEMPT": "1",
        "AWS_BATCH_JQ_NAME": cloud.queue.rpartition("/")[2],
        "AWS_BATCH_CE_NAME": "test-environment",
        "AWS_ENDPOINT_URL": cloud.endpoint_url,
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_ACCESS_KEY_ID": "job",
        "AWS_SECRET_ACCESS_KEY": cloud.secret,
        "AWS_CONFIG_FILE": "/dev/null",
        "AWS_SHARED_CREDENTIALS_FILE": "/dev/null",
        "AWS_EC2_METADATA_DISABLED": "true",
        "AWS_EXECUTION_ENV": "AWS_ECS_EC2",
    }


@pytest.fixture
def image_with_a_command(client):
    made = client.containers.create(IMAGE, "true")
    try:
        image = made.commit(
            "batchmark-test-speaks", "1", conf={"Entrypoint": ["echo", "entry"], "Cmd": ["command"]}
        )
        yield image.tags[0]
        # The job's container goes after the job has ended, maybe after this.
        client.images.remove(image.id, force=True)
    finally:
        made.remove()


def test_without_a_command_the_images_own_runs_below_its_entrypoint(
    cloud, submit, image_with_a_command
):
    assert cloud.output(submit([], image=image_with_a_command)) == ["entry command"]
    parameters = {"job": {"parameters": {"word": "Batch's"}}}
    job_id = submit(["Ref::word", "Ref::none"], image=image_with_a_command, **parameters)
    assert cloud.output(job_id) == ["entry Batch's Ref::none"]


def test_more_memory_than_asked_for_is_the_end(cloud, submit, client):
    # A child, as the engine misses one in fifty such ends of a container's last process: its
    # group is gone before the engine has looked.
    child = "subprocess.run([sys.executable, '-c', 'bytearray(512 * 2**20)'])"
    program = f"import subprocess, sys\nassert {child}.returncode == -9\n{FOR_EVER}"
    retry = {"attempts": 2, "evaluateOnExit": [{"action": "RETRY", "onReason": "OutOfMemory*"}]}
    job_id = submit(program, memory=64, job={"retryStrategy": retry})
    for _ in range(2):
        container = wait_for(lambda: seen_out_of_memory(client, job_id), "kill that is seen")
        container.kill()
        container.wait()
    job = cloud.finish(job_id)
    assert (job["status"], job["container"]["exitCode"]) == ("FAILED", 137)
    reason = "OutOfMemoryError: Container killed due to memory usage"
    assert [each["container"]["reason"] for each in job["attempts"]] == [reason, reason]
    assert job["container"]["reason"] == reason


def test_what_the_definition_asks_for_is_what_the_job_has(cloud, submit):
    program = """
import os, pathlib, resource
def can_write(path):
    try:
        pathlib.Path(path, "new").write_text("x")
    except OSError as error:
        return error.strerror
    return "yes"
print("root", can_write("/"))
print("scratch", can_write("/scratch"))
print("user", os.getuid(), os.getgid())
print("files", resource.getrlimit(resource.RLIMIT_NOFILE))
for path in ("/dev/shm", "/scratch"):
    room = os.statvfs(path)
    print(path, room.f_blocks * room.f_frsize // 2**20)
print("first", pathlib.Path("/proc/1/comm").read_text().strip())
"""
    job_id = submit(
        program,
        user="10001:10002",
        readonlyRootFilesystem=True,
        ulimits=[{"name": "nofile", "softLimit": 512, "hardLimit": 1024}],
        linuxParameters={
            "initProcessEnabled": True,
            "sharedMemorySize": 80,
            "tmpfs": [
                {
                    "containerPath": "/scratch",
                    "size": 24,
                    "mountOptions": ["rw", "exec", "mode=1777"],
                }
            ],
        },
    )
    assert cloud.output(job_id) == [
        "root Read-only file system",
        "scratch yes",
        "user 10001 10002",
        "files (512, 1024)",
        "/dev/shm 80",
        "/scratch 24",
        "first docker-init",
    ]


def test_limits_are_the_engines(cloud, submit, client):
    job_id = submit(
        FOR_EVER,
        memory=96,
        privileged=True,
        linuxParameters={"maxSwap": 32, "devices": [{"hostPath": "/dev/null"}]},
    )
    cloud.wait_for(job_id, "RUNNING")
    (container,) = running_containers(client, job_id)
    host = container.attrs["HostConfig"]
    assert (host["Memory"], host["CpuShares"]) == (96 * MIB, 1024)
    assert host["MemorySwap"] in (128 * MIB, -1)  # -1: this kernel counts no swap
    assert host["Privileged"] is True
    assert host["NetworkMode"] == "host"
    cloud.batch.terminate_job(jobId=job_id, reason="seen")
    cloud.finish(job_id)


def test_folders_of_the_engine_and_fresh_volumes(cloud, submit, tmp_path):
    (tmp_path / "in").write_text("brought along")
    program = """
import pathlib
print(pathlib.Path("/data/in").read_text())
for folder in ("/data", "/fresh"):
    try:
        pathlib.Path(folder, "out").write_text("x")
        print("written")
    except OSError as error:
        print(error.strerror)
"""
    volumes = [{"name": "data", "host": {"sourcePath": str(tmp_path)}}, {"name": "fresh"}]
    mount_points = [
        {"sourceVolume": "data", "containerPath": "/data", "readOnly": True},
        {"sourceVolume": "fresh", "containerPath": "/fresh"},
    ]
    job_id = submit(program, volumes=volumes, mountPoints=mount_points)
    assert cloud.output(job_id) == ["brought along", "Read-only file system", "written"]


@pytest.mark.parametrize(
    ("program", "container", "error", "word"),
    [
        (["no-such-program"], {}, "CannotStartContainerError", "no-such-program"),
        ("pass", {"memory": 4}, "CannotCreateContainerError", "6MB"),
        ("pass", {"image": NOTHING}, "CannotPullContainerError", NOTHING.partition("/")[0]),
    ],
)
def test_what_the_engine_refuses_cannot_start(cloud, submit, program, container, error, word):
    job = cloud.finish(submit(program, **container))
    assert (job["status"], job["statusReason"]) == ("FAILED", "Task failed to start")
    assert job["container"]["reason"].startswith(f"{error}: Error response from")
    assert word in job["container"]["reason"]
    assert "exitCode" not in job["container"]


def test_what_ignores_sigterm_is_killed_after_its_timeout(cloud, submit):
    timeout = {"timeout": {"attemptDurationSeconds": 1}, "retryStrategy": {"attempts": 3}}
    job = cloud.finish(submit(DEAF, job=timeout))
    assert (job["status"], job["container"]["exitCode"]) == ("FAILED", 137)
    assert job["statusReason"] == "Job attempt duration exceeded timeout"
    assert len(job["attempts"]) == 1


def test_terminate_gives_the_job_time_to_clean_up_and_its_lines_come_meanwhile(
    cloud, submit, client
):
    program = (
        "import signal, sys, time\n"
        "def end(*_): print('cleaned', flush=True); sys.exit(5)\n"
        "signal.signal(signal.SIGTERM, end)\n"
        "print('ready', flush=True)\n"
        "time.sleep(3600)"
    )
    job_id = submit(program)
    job = cloud.wait_for(job_id, "RUNNING")
    assert wait_for(lambda: cloud.lines(job), "log lines") == ["ready"]
    cloud.batch.terminate_job(jobId=job_id, reason="stop")
    job = cloud.finish(job_id)
    assert (job["status"], job["statusReason"]) == ("FAILED", "stop")
    assert job["container"]["exitCode"] == 5
    assert cloud.lines(job) == ["ready", "cleaned"]
    wait_for(lambda: not containers_of(client, cloud), "removal of its container")


def test_without_a_network_nodes_have_addresses_of_the_loopback(cloud):
    said, nodes = run_nodes(cloud, 2)
    main, child = addresses(nodes)
    assert said == [f"{child} came to {main}"]
    assert len({main, child, "127.0.0.1"}) == 3


def test_gpus_are_declared_where_the_engine_has_none(cloud, client):
    if "nvidia" in client.info()["Runtimes"]:
        pytest.skip("this engine has GPUs")
    show = ["python", "-c", "import os; print(os.environ['NVIDIA_VISIBLE_DEVICES'])"]
    definition = cloud.define(show, memory=64, gpus=2, container={"image": IMAGE})
    assert cloud.output(cloud.submit(definition)) == ["0,1"]


def test_a_job_learns_its_image_from_the_metadata_endpoint(cloud, submit, client):
    ask = (
        "import os, urllib.request\n"
        "url = os.environ['ECS_CONTAINER_METADATA_URI_V4']\n"
        "for path in ('', '/task'): print(urllib.request.urlopen(url + path).read().decode())"
    )
    container, task = map(json.loads, cloud.output(submit(ask)))
    assert container["ImageID"] == client.images.get(IMAGE).id
    assert container["Limits"] == {"CPU": 1024, "Memory": 64}
    assert task["Containers"][0]["DockerId"] == container["DockerId"]
    assert "PullStartedAt" not in task


@pytest.fixture
def faults(cloud):
    """The control of faults; all are ended with the test."""
    with cloud.control() as control:
        yield control
        control.delete("/_faults")


@pytest.mark.parametrize("with_init", [True, False])
def test_a_command_killed_from_outside(cloud, submit, client, faults, with_init):
    job_id = submit(FOR_EVER, linuxParameters={"initProcessEnabled": with_init})
    cloud.wait_for(job_id, "RUNNING")
    (pid,) = wait_for(lambda: faults.get(f"/_faults/jobs/{job_id}").json()["pids"], "process id")
    assert kill(client, pid, IMAGE)
    assert not kill(client, pid, IMAGE)
    job = cloud.finish(job_id)
    assert faults.get(f"/_faults/jobs/{job_id}").json()["pids"] == []
    assert (job["status"], job["container"]["exitCode"]) == ("FAILED", 137)
    assert "reason" not in job["container"]


def test_a_host_may_be_lost(cloud, submit, faults):
    faults.post(
        "/_faults", json={"kind": "spot_interruption", "notice_seconds": 0, "shutdown_seconds": 0}
    )
    job = cloud.finish(submit(FOR_EVER))
    assert job["statusReason"].startswith("Host EC2 (instance i-")
    assert "exitCode" not in job["container"]
