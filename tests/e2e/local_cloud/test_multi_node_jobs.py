"""Multi-node parallel jobs."""

import sys

import pytest

from tests.waiting import wait_for

SHOW = (
    "echo $AWS_BATCH_JOB_NODE_INDEX of $AWS_BATCH_JOB_NUM_NODES "
    "main $AWS_BATCH_JOB_MAIN_NODE_INDEX at [$AWS_BATCH_JOB_MAIN_NODE_PRIVATE_IPV4_ADDRESS] "
    "as $AWS_BATCH_JOB_ID for $WHO"
)
OWN_ADDRESS = f"""{sys.executable} -c "
import json, os, urllib.request
task = json.load(urllib.request.urlopen(os.environ['ECS_CONTAINER_METADATA_URI_V4']))
print(*task['Networks'][0]['IPv4Addresses'])
"
"""


def meet(folder, num_nodes):
    """A script for nodes: it ends when all nodes have reached it."""
    all_here = " && ".join(f"[ -e {folder}/{node} ]" for node in range(num_nodes))
    here = f"{folder}/$AWS_BATCH_JOB_NODE_INDEX"
    return f"touch {here}; until {all_here}; do sleep 0.02; done"


def define_nodes(cloud, script, main_node=0, gpus=0):
    """Register the definition of a job of two nodes, which run a script."""
    container = cloud.container(["sh", "-c", script], gpus=gpus)
    answer = cloud.batch.register_job_definition(
        jobDefinitionName=cloud.name("nodes"),
        type="multinode",
        nodeProperties={
            "numNodes": 2,
            "mainNode": main_node,
            "nodeRangeProperties": [{"targetNodes": "0:", "container": container}],
        },
    )
    return answer["jobDefinitionArn"]


def test_every_node_gets_its_index_and_what_the_submission_overrides(cloud, tmp_path):
    definition = define_nodes(cloud, f"{SHOW}; {OWN_ADDRESS}{meet(tmp_path, 3)}", main_node=1)
    environment = {"environment": [{"name": "WHO", "value": "anybody"}]}
    overrides = {"targetNodes": "0:", "containerOverrides": environment}
    asked = {"numNodes": 3, "nodePropertyOverrides": [overrides]}
    job_id = cloud.submit(definition, nodeOverrides=asked)
    job = cloud.finish(job_id)
    assert job["status"] == "SUCCEEDED"
    assert job["nodeProperties"]["numNodes"] == 3
    nodes = [cloud.describe(f"{job_id}#{node}") for node in range(3)]
    described = [node["container"]["networkInterfaces"] for node in nodes]
    own = [interface["privateIpv4Address"] for (interface,) in described]
    assert list(map(cloud.lines, nodes)) == [
        [f"0 of 3 main 1 at [{own[1]}] as {job_id}#0 for anybody", own[0]],
        [f"1 of 3 main 1 at [] as {job_id}#1 for anybody", own[1]],
        [f"2 of 3 main 1 at [{own[1]}] as {job_id}#2 for anybody", own[2]],
    ]
    assert nodes[1]["nodeDetails"] == {"nodeIndex": 1, "isMainNode": True}


@pytest.mark.parametrize(
    ("end", "status", "codes"),
    [
        ("itself", "SUCCEEDED", [0, 143]),
        ("killed", "FAILED", [137, 143]),
        ("terminated", "FAILED", [143, 143]),
    ],
)
def test_the_main_node_decides_and_a_child_that_runs_is_ended_with_it(
    cloud, gate, faults, end, status, codes
):
    script = f"[ $AWS_BATCH_JOB_NODE_INDEX = 0 ] || exec sleep 3600; {gate.script}"
    job_id = cloud.submit(define_nodes(cloud, script))
    shown, kill = f"/_faults/jobs/{job_id}", f"/_faults/jobs/{job_id}/nodes/0/kill"

    def are_running():
        pids = faults.client.get(shown).json().get("nodes", {})
        return len(list(filter(None, pids.values()))) == 2

    wait_for(are_running, "both nodes")
    if end == "killed":
        faults.client.post(kill).raise_for_status()
    elif end == "terminated":
        cloud.batch.terminate_job(jobId=job_id, reason="stop")
    else:
        gate.open()
    assert cloud.finish(job_id)["status"] == status
    nodes = [cloud.describe(f"{job_id}#{node}") for node in range(2)]
    assert [node["container"]["exitCode"] for node in nodes] == codes
    gone = faults.client.post(kill)
    assert (gone.status_code, f"({status}) is not running" in gone.json()["message"]) == (409, True)


def test_nodes_get_their_resources_together_or_not_at_all(cloud, gate, tmp_path):
    blocker = cloud.submit(cloud.define(["sh", "-c", gate.script], gpus=1))
    cloud.wait_for(blocker, "RUNNING")
    script = f"echo $NVIDIA_VISIBLE_DEVICES; {meet(tmp_path, 2)}"
    job_id = cloud.submit(define_nodes(cloud, script, gpus=1))
    assert cloud.describe(job_id)["status"] == "RUNNABLE"
    gate.open()
    assert cloud.finish(job_id)["status"] == "SUCCEEDED"
    gpus = [cloud.lines(cloud.describe(f"{job_id}#{node}"))[0] for node in range(2)]
    assert sorted(gpus) == ["0", "1"]
