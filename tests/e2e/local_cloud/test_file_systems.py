"""FSx for Lustre: from the call that makes a file system to the jobs that read it."""

import base64
import errno

import pytest

from laptop.processes import free_port
from tests.builders.lustre import Lustre
from tests.clouds import running
from tests.containers.restarting import restarting
from tests.waiting import wait_for

PARAMETER = "/batchmark/file-system"
USER_DATA = f'#!/bin/bash\nFILE_SYSTEM_PARAMETER="{PARAMETER}"\n'
SIZES = "import os; print(*sorted(os.listdir(os.environ['FILES'])))"
WRITE = "import os; open(os.environ['FILES'] + '/written', 'wb').write(b'x' * 3_000_000)"


class FileSystems(Lustre):
    def __init__(self, cloud):
        super().__init__(cloud.client)
        self.cloud = cloud
        self.ssm = cloud.client("ssm")
        self.queue = cloud.create_queue(compute_environment=self._environment())

    def _environment(self):
        template = self.ec2.create_launch_template(
            LaunchTemplateName=self.cloud.name("nodes"),
            LaunchTemplateData={"UserData": base64.b64encode(USER_DATA.encode()).decode()},
        )["LaunchTemplate"]
        return self.cloud.create_compute_environment(
            self.cloud.name("nodes"),
            launchTemplate={"launchTemplateId": template["LaunchTemplateId"]},
        )

    def wait_for(self, file_system_id, lifecycle):
        wait_for(lambda: self.lifecycle(file_system_id) == lifecycle, lifecycle)
        return file_system_id

    def delete(self, file_system_id):
        self.fsx.delete_file_system(FileSystemId=file_system_id)

        def is_gone():
            left = self.fsx.describe_file_systems()["FileSystems"]
            return file_system_id not in {each["FileSystemId"] for each in left}

        wait_for(is_gone, f"end of {file_system_id}")

    def link(self, file_system_id, bucket):
        """Import the names of a bucket's images, and wait until they are there."""
        repository = f"s3://{bucket}/images/"
        self.associate(file_system_id, repository=repository, BatchImportMetaDataOnCreate=True)

        def lifecycle():
            return self.association(file_system_id)["Lifecycle"]

        wait_for(lambda: lifecycle() != "CREATING", "association")
        over = {"SUCCEEDED", "FAILED"}
        wait_for(lambda: {one["Lifecycle"] for one in self.tasks(file_system_id)} <= over, "import")
        return lifecycle()

    def mounted_by_hosts(self, file_system_id):
        self.ssm.put_parameter(Name=PARAMETER, Value=file_system_id, Type="String", Overwrite=True)

    def submit(self, program, files="/fsx/images", num_nodes=2):
        """A multi-node job with /fsx of its hosts."""
        container = {
            **self.cloud.container(["python", "-c", program]),
            "environment": [{"name": "FILES", "value": files}],
            "volumes": [{"name": "files", "host": {"sourcePath": "/fsx"}}],
            "mountPoints": [{"sourceVolume": "files", "containerPath": "/fsx"}],
        }
        definition = self.cloud.batch.register_job_definition(
            jobDefinitionName=self.cloud.name("nodes"),
            type="multinode",
            nodeProperties={
                "numNodes": num_nodes,
                "mainNode": 0,
                "nodeRangeProperties": [{"targetNodes": "0:", "container": container}],
            },
        )["jobDefinitionArn"]
        return self.cloud.submit(definition, queue=self.queue)

    def output(self, job_id, node=0):
        return self.cloud.lines(self.cloud.describe(f"{job_id}#{node}"))


@pytest.fixture(scope="module")
def own_cloud():
    options = "--vcpus", "4", "--memory", "1024", "--stop-grace", "2"
    with running(*options, "--file-system-seconds", "0.2") as started:
        yield started


@pytest.fixture(scope="module")
def bucket(own_cloud):
    name, s3 = own_cloud.name("images"), own_cloud.client("s3")
    s3.create_bucket(Bucket=name)
    for shard in ("a", "b"):
        s3.put_object(Bucket=name, Key=f"images/{shard}.tar", Body=shard.encode() * 1000)
    return name


@pytest.fixture
def file_systems(own_cloud):
    yield FileSystems(own_cloud)
    with own_cloud.control() as control:
        control.delete("/_faults")


def test_all_nodes_read_what_s3_has(own_cloud, file_systems, bucket):
    made = file_systems.wait_for(file_systems.create(), "AVAILABLE")
    assert file_systems.link(made, bucket) == "AVAILABLE"
    file_systems.mounted_by_hosts(made)
    script = f"{SIZES}; print(os.stat(os.environ['FILES'] + '/a.tar').st_size)"
    meet = (
        "; import time; index = os.environ['AWS_BATCH_JOB_NODE_INDEX']"
        "; own = os.environ['FILES'] + '/../node-'; open(own + index, 'w').close()"
        "\nwhile not all(os.path.exists(own + each) for each in '01'): time.sleep(0.02)"
    )
    job_id = file_systems.submit(script + meet)
    assert own_cloud.finish(job_id)["status"] == "SUCCEEDED"
    assert [file_systems.output(job_id, node) for node in range(2)] == [["a.tar b.tar", "1000"]] * 2
    file_systems.delete(made)


def test_a_full_file_system_takes_no_more(own_cloud, file_systems, bucket):
    made = file_systems.wait_for(file_systems.create(), "AVAILABLE")
    file_systems.link(made, bucket)
    file_systems.mounted_by_hosts(made)
    with own_cloud.control() as control:
        answer = control.post("/_faults", json={"kind": "file_system_full", "file_system": made})
    if answer.status_code == 409:
        assert "requires root" in answer.json()["message"]
        pytest.skip("mounting a file system takes root")
    job_id = file_systems.submit(WRITE, num_nodes=1)
    assert own_cloud.finish(job_id)["status"] == "FAILED"
    assert f"[Errno {errno.ENOSPC}]" in file_systems.output(job_id)[-1]
    with own_cloud.control() as control:
        control.delete("/_faults")
    assert own_cloud.finish(file_systems.submit(WRITE, num_nodes=1))["status"] == "SUCCEEDED"


def test_file_systems_outlive_a_kill(tmp_path):
    state = tmp_path / "state"
    state.mkdir()
    options = "--port", str(free_port()), "--state", str(state), "--file-system-seconds", "0.2"
    with restarting(*options) as again:
        file_systems = FileSystems(again.cloud)
        made = file_systems.wait_for(file_systems.create(), "AVAILABLE")
        file_systems.mounted_by_hosts(made)
        job_id = file_systems.submit(WRITE, files="/fsx", num_nodes=1)
        assert again.cloud.finish(job_id)["status"] == "SUCCEEDED"
        other = file_systems.create()
        again.kill()

        again.start()
        assert (state / "file-systems" / made / "written").stat().st_size == 3_000_000
        assert file_systems.lifecycle(made) == "AVAILABLE"
        file_systems.wait_for(other, "AVAILABLE")
        file_systems.delete(made)
        assert [path.name for path in (state / "file-systems").iterdir()] == [other]
