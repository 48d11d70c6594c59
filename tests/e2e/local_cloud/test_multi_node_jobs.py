"""Multi-node parallel jobs."""

import pytest

from tests.waiting import wait_for

SHOW = (
    "echo $AWS_BATCH_JOB_NODE_INDEX of $AWS_BATCH_JOB_NUM_NODES "
    "main $AWS_BATCH_JOB_MAIN_NODE_INDEX at [$AWS_BATCH_JOB_MAIN_NODE_PRIVATE_IPV4_ADDRESS] "
    "as $AWS_BATCH_JOB_ID for $WHO"
)


@pytest.fixture
def meet(tmp_path):
    """A script for nodes: it ends when all nodes have reached it."""

    def script(num_nodes):
        all_here = " && ".join(f"[ -e {tmp_path}/{node} ]" for node in range(num_nodes))
        here = f"{tmp_path}/$AWS_BATCH_JOB_NODE_INDEX"
        return f"touch {here}; until {all_here}; do sleep 0.02; done"

    return script


@pytest.fixture
def define_nodes(cloud):
    """Register the definition of a job of two nodes, which run a script."""

    def define(script, main_node=0, gpus=0):
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

    return define


def test_every_node_gets_its_index_and_what_the_submission_overrides(cloud, define_nodes, meet):
    definition = define_nodes(f"{SHOW}; {meet(3)}", main_node=1)
    environment = {"environment": [{"name": "WHO", "value": "anybody"}]}
    overrides = {"targetNodes": "0:", "containerOverrides": environment}
    asked = {"numNodes": 3, "nodePropertyOverrides": [overrides]}
    job_id = cloud.submit(definition, nodeOverrides=asked)
    job = cloud.finish(job_id)
    assert job["status"] == "SUCCEEDED"
    assert job["nodeProperties"]["numNodes"] == 3
    nodes = [cloud.describe(f"{job_id}#{node}") for node in range(3)]
    (interface,) = nodes[1]["container"]["networkInterfaces"]
    main = interface["privateIpv4Address"]
    assert list(map(cloud.lines, nodes)) == [
        [f"0 of 3 main 1 at [{main}] as {job_id}#0 for anybody"],
        [f"1 of 3 main 1 at [] as {job_id}#1 for anybody"],
        [f"2 of 3 main 1 at [{main}] as {job_id}#2 for anybody"],
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
    cloud, define_nodes, gate, faults, end, status, codes
):
    script = f"[ $AWS_BATCH_JOB_NODE_INDEX = 0 ] || exec sleep 600; {gate.script}"
    job_id = cloud.submit(define_nodes(script))
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


def test_nodes_get_their_resources_together_or_not_at_all(cloud, define_nodes, gate, meet):
    blocker = cloud.submit(cloud.define(["sh", "-c", gate.script], gpus=1))
    cloud.wait_for(blocker, "RUNNING")
    script = f"echo $NVIDIA_VISIBLE_DEVICES; {meet(2)}"
    job_id = cloud.submit(define_nodes(script, gpus=1))
    assert cloud.describe(job_id)["status"] == "RUNNABLE"
    gate.open()
    assert cloud.finish(job_id)["status"] == "SUCCEEDED"
    gpus = [cloud.lines(cloud.describe(f"{job_id}#{node}"))[0] for node in range(2)]
    assert sorted(gpus) == ["0", "1"]
