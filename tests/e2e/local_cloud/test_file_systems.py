"""FSx for Lustre: a file system with files of S3, read and written by jobs, outlives a kill."""

import base64

from laptop.processes import free_port
from tests.builders.lustre import Lustre
from tests.containers.restarting import restarting
from tests.waiting import wait_for

PARAMETER = "/batchmark/file-system"
USER_DATA = f'#!/bin/bash\nFILE_SYSTEM_PARAMETER="{PARAMETER}"\n'
# Each node says what it finds, and leaves a file; it ends once it sees those of both.
PROGRAM = """
import os, time
files = os.environ["FILES"]
print(*sorted(os.listdir(files + "/images")), os.stat(files + "/images/a.tar").st_size)
index = os.environ["AWS_BATCH_JOB_NODE_INDEX"]
open(files + "/node-" + index, "wb").write(b"x" * 3_000_000)
while not all(os.path.exists(files + "/node-" + each) for each in "01"):
    time.sleep(0.02)
"""


class FileSystems(Lustre):
    def __init__(self, cloud):
        super().__init__(cloud.client)
        self.cloud = cloud
        template = self.ec2.create_launch_template(
            LaunchTemplateName="nodes",
            LaunchTemplateData={"UserData": base64.b64encode(USER_DATA.encode()).decode()},
        )["LaunchTemplate"]
        by_id = {"launchTemplateId": template["LaunchTemplateId"]}
        environment = cloud.create_compute_environment("nodes", launchTemplate=by_id)
        self.queue = cloud.create_queue(compute_environment=environment)

    def wait_for(self, file_system_id, lifecycle):
        wait_for(lambda: self.lifecycle(file_system_id) == lifecycle, lifecycle)
        return file_system_id

    def link(self, file_system_id, bucket):
        """Import the names of a bucket's images, and wait until they are there."""
        repository = f"s3://{bucket}/images/"
        self.associate(file_system_id, repository=repository, BatchImportMetaDataOnCreate=True)

        def imports():
            return [task["Lifecycle"] for task in self.tasks(file_system_id)]

        wait_for(lambda: imports() == ["SUCCEEDED"], "import")

    def submit(self):
        """A job of two nodes with /fsx of their hosts."""
        container = {
            **self.cloud.container(["python", "-c", PROGRAM]),
            "environment": [{"name": "FILES", "value": "/fsx"}],
            "volumes": [{"name": "files", "host": {"sourcePath": "/fsx"}}],
            "mountPoints": [{"sourceVolume": "files", "containerPath": "/fsx"}],
        }
        definition = self.cloud.batch.register_job_definition(
            jobDefinitionName=self.cloud.name("nodes"),
            type="multinode",
            nodeProperties={
                "numNodes": 2,
                "mainNode": 0,
                "nodeRangeProperties": [{"targetNodes": "0:", "container": container}],
            },
        )["jobDefinitionArn"]
        return self.cloud.submit(definition, queue=self.queue)


def test_all_nodes_read_what_s3_has_and_what_they_write_outlives_a_kill(tmp_path):
    state = tmp_path / "state"
    state.mkdir()
    options = "--port", str(free_port()), "--state", str(state), "--file-system-seconds", "0.2"
    with restarting(*options, "--vcpus", "2") as again:
        cloud, file_systems = again.cloud, FileSystems(again.cloud)
        s3 = cloud.client("s3")
        s3.create_bucket(Bucket="images")
        for shard in ("a", "b"):
            s3.put_object(Bucket="images", Key=f"images/{shard}.tar", Body=shard.encode() * 1000)
        made = file_systems.wait_for(file_systems.create(), "AVAILABLE")
        file_systems.link(made, "images")
        cloud.client("ssm").put_parameter(Name=PARAMETER, Value=made, Type="String")
        job_id = file_systems.submit()
        assert cloud.finish(job_id)["status"] == "SUCCEEDED"
        outputs = [cloud.lines(cloud.describe(f"{job_id}#{node}")) for node in range(2)]
        assert outputs == [["a.tar b.tar 1000"]] * 2
        other = file_systems.create()
        again.kill()

        again.start()
        folder = state / "file-systems" / made
        assert [(folder / f"node-{n}").stat().st_size for n in range(2)] == [3_000_000] * 2
        assert file_systems.lifecycle(made) == "AVAILABLE"
        file_systems.wait_for(other, "AVAILABLE")
        file_systems.fsx.delete_file_system(FileSystemId=made)
        wait_for(lambda: not folder.exists(), f"end of {made}")
        assert [path.name for path in (state / "file-systems").iterdir()] == [other]
