"""Multi-node parallel jobs."""

import pytest

from tests.waiting import wait_for

SHOW = (
    "echo $AWS_BATCH_JOB_NODE_INDEX of $AWS_BATCH_JOB_NUM_NODES "
    "main $AWS_BATCH_JOB_MAIN_NODE_INDEX at [$AWS_BATCH_JOB_MAIN_NODE_PRIVATE_IPV4_ADDRESS] "
    "as $AWS_BATCH_JOB_ID for $WHO"
)
FOR_EVER = "while :; do sleep 0.05; done"


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
    """Register a multi-node job definition of a script; children may have one of their own."""

    def define(script, child=None, *, num_nodes, main_node=0, gpus=0):
        if child is not None:
            script = f"if [ $AWS_BATCH_JOB_NODE_INDEX = 0 ]; then {script}; else {child}; fi"
        container = cloud.container(["sh", "-c", script], gpus=gpus)
        answer = cloud.batch.register_job_definition(
            jobDefinitionName=cloud.name("nodes"),
            type="multinode",
            nodeProperties={
                "numNodes": num_nodes,
                "mainNode": main_node,
                "nodeRangeProperties": [{"targetNodes": "0:", "container": container}],
            },
        )
        return answer["jobDefinitionArn"]

    return define


@pytest.fixture
def running_nodes(faults):
    """Wait until so many nodes of a job run; their process ids by node."""

    def wait(job_id, count):
        def nodes():
            found = faults.client.get(f"/_faults/jobs/{job_id}").json().get("nodes", {})
            return found if len(list(filter(None, found.values()))) == count else None

        return wait_for(nodes, f"{count} nodes of job {job_id}")

    return wait


def address(node):
    """A node's own address, as it is described."""
    (interface,) = node["container"]["networkInterfaces"]
    return interface["privateIpv4Address"]


def exit_codes(cloud, job_id, num_nodes):
    nodes = [cloud.describe(f"{job_id}#{node}") for node in range(num_nodes)]
    return [node["container"].get("exitCode") for node in nodes]


def test_every_node_gets_its_index_and_what_the_submission_overrides(cloud, define_nodes, meet):
    definition = define_nodes(f"{SHOW}; {meet(3)}", num_nodes=2, main_node=1)
    environment = {"environment": [{"name": "WHO", "value": "anybody"}]}
    overrides = {"targetNodes": "0:", "containerOverrides": environment}
    asked = {"numNodes": 3, "nodePropertyOverrides": [overrides]}
    job_id = cloud.submit(definition, nodeOverrides=asked)
    job = cloud.finish(job_id)
    assert job["status"] == "SUCCEEDED"
    assert job["nodeProperties"]["numNodes"] == 3
    nodes = [cloud.describe(f"{job_id}#{node}") for node in range(3)]
    main = address(nodes[1])
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
    cloud, define_nodes, gate, faults, running_nodes, end, status, codes
):
    job_id = cloud.submit(define_nodes(gate.script, FOR_EVER, num_nodes=2))
    kill = f"/_faults/jobs/{job_id}/nodes/0/kill"
    running_nodes(job_id, 2)
    if end == "killed":
        faults.client.post(kill).raise_for_status()
    elif end == "terminated":
        cloud.batch.terminate_job(jobId=job_id, reason="stop")
    else:
        gate.open()
    assert cloud.finish(job_id)["status"] == status
    assert exit_codes(cloud, job_id, 2) == codes
    gone = faults.client.post(kill)
    assert (gone.status_code, f"({status}) is not running" in gone.json()["message"]) == (409, True)


def test_a_killed_child_leaves_the_others_alone_and_neither_fails_nor_retries_the_job(
    cloud, define_nodes, gate, faults, running_nodes, is_running
):
    definition = define_nodes(gate.script, num_nodes=3)
    job_id = cloud.submit(definition, retryStrategy={"attempts": 3})
    (pid,) = running_nodes(job_id, 3)["2"]
    killed = faults.client.post(f"/_faults/jobs/{job_id}/nodes/2/kill")
    assert killed.json() == {"job_id": job_id, "node": 2}
    wait_for(lambda: not is_running(pid), "end of the node")
    running_nodes(job_id, 2)
    assert cloud.describe(job_id)["status"] == "RUNNING"
    gate.open()
    job = cloud.finish(job_id)
    assert (job["status"], len(job["attempts"])) == ("SUCCEEDED", 1)
    codes = exit_codes(cloud, job_id, 3)
    assert (codes[0], codes[2]) == (0, 137)


def test_nodes_get_their_resources_together_or_not_at_all(cloud, define_nodes, gate, meet):
    blocker = cloud.submit(cloud.define(["sh", "-c", gate.script], gpus=1))
    cloud.wait_for(blocker, "RUNNING")
    script = f"echo $NVIDIA_VISIBLE_DEVICES; {meet(2)}"
    job_id = cloud.submit(define_nodes(script, num_nodes=2, gpus=1))
    assert cloud.describe(job_id)["status"] == "RUNNABLE"
    gate.open()
    assert cloud.finish(job_id)["status"] == "SUCCEEDED"
    gpus = [cloud.lines(cloud.describe(f"{job_id}#{node}"))[0] for node in range(2)]
    assert sorted(gpus) == ["0", "1"]
