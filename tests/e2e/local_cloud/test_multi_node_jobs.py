"""Multi-node parallel jobs."""

import pytest
from botocore.exceptions import ClientError

SHOW = (
    "echo $AWS_BATCH_JOB_NODE_INDEX of $AWS_BATCH_JOB_NUM_NODES "
    "main $AWS_BATCH_JOB_MAIN_NODE_INDEX at [$AWS_BATCH_JOB_MAIN_NODE_PRIVATE_IPV4_ADDRESS] "
    "as $AWS_BATCH_JOB_ID"
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
    """Register a multi-node job definition of (range, script) pairs."""

    def define(*ranges, num_nodes, main_node=0, gpus=0):
        answer = cloud.batch.register_job_definition(
            jobDefinitionName=cloud.name("nodes"),
            type="multinode",
            nodeProperties={
                "numNodes": num_nodes,
                "mainNode": main_node,
                "nodeRangeProperties": [
                    {
                        "targetNodes": target,
                        "container": cloud.container(["sh", "-c", script], gpus=gpus),
                    }
                    for target, script in ranges
                ],
            },
        )
        return answer["jobDefinitionArn"]

    return define


def test_every_node_gets_its_index(cloud, define_nodes, meet):
    job_id = cloud.submit(define_nodes(("0:", f"{SHOW}; {meet(3)}"), num_nodes=3, main_node=1))
    job = cloud.finish(job_id)
    assert job["status"] == "SUCCEEDED"
    assert job["nodeProperties"]["numNodes"] == 3
    outputs = [cloud.lines(cloud.describe(f"{job_id}#{node}")) for node in range(3)]
    assert outputs == [
        [f"0 of 3 main 1 at [127.0.0.1] as {job_id}#0"],
        [f"1 of 3 main 1 at [] as {job_id}#1"],
        [f"2 of 3 main 1 at [127.0.0.1] as {job_id}#2"],
    ]
    assert cloud.describe(f"{job_id}#1")["nodeDetails"] == {"nodeIndex": 1, "isMainNode": True}


def test_the_main_node_decides_and_the_others_are_ended(cloud, define_nodes):
    forever = "while :; do sleep 0.05; done"
    for code, status in ((0, "SUCCEEDED"), (6, "FAILED")):
        definition = define_nodes(("0", f"exit {code}"), ("1:", forever), num_nodes=2)
        job_id = cloud.submit(definition)
        assert cloud.finish(job_id)["status"] == status
        assert cloud.describe(f"{job_id}#0")["container"]["exitCode"] == code
        assert cloud.describe(f"{job_id}#1")["container"]["exitCode"] == 143


def test_a_child_nodes_failure_does_not_fail_the_job(cloud, define_nodes, gate):
    definition = define_nodes(("0", gate.script), ("1", "exit 9"), num_nodes=2)
    job_id = cloud.submit(definition)
    cloud.wait_for(job_id, "RUNNING")
    gate.open()
    assert cloud.finish(job_id)["status"] == "SUCCEEDED"


def test_node_overrides(cloud, define_nodes, meet):
    definition = define_nodes(("0:", f"echo $WHO; {meet(3)}"), num_nodes=2)
    environment = [{"name": "WHO", "value": "child"}]
    overrides = {
        "numNodes": 3,
        "nodePropertyOverrides": [
            {"targetNodes": "1:", "containerOverrides": {"environment": environment}}
        ],
    }
    job_id = cloud.submit(definition, nodeOverrides=overrides)
    assert cloud.finish(job_id)["status"] == "SUCCEEDED"
    outputs = [cloud.lines(cloud.describe(f"{job_id}#{node}")) for node in range(3)]
    assert outputs == [[], ["child"], ["child"]]


def test_nodes_start_together_or_not_at_all(cloud, define_nodes, gate, meet):
    blocker = cloud.submit(cloud.define(["sh", "-c", gate.script], gpus=1))
    cloud.wait_for(blocker, "RUNNING")
    script = f"echo $NVIDIA_VISIBLE_DEVICES; {meet(2)}"
    job_id = cloud.submit(define_nodes(("0:", script), num_nodes=2, gpus=1))
    assert cloud.describe(job_id)["status"] == "RUNNABLE"
    gate.open()
    assert cloud.finish(job_id)["status"] == "SUCCEEDED"
    gpus = [cloud.lines(cloud.describe(f"{job_id}#{node}"))[0] for node in range(2)]
    assert sorted(gpus) == ["0", "1"]


def test_terminate_ends_all_nodes(cloud, define_nodes, gate):
    job_id = cloud.submit(define_nodes(("0:", gate.script), num_nodes=2))
    cloud.wait_for(job_id, "RUNNING")
    cloud.batch.terminate_job(jobId=job_id, reason="stop")
    assert cloud.finish(job_id)["statusReason"] == "stop"
    codes = [cloud.describe(f"{job_id}#{node}")["container"]["exitCode"] for node in range(2)]
    assert codes == [143, 143]


def test_nodes_are_listed(cloud, define_nodes):
    job_id = cloud.submit(define_nodes(("0:", "true"), num_nodes=2))
    cloud.finish(job_id)
    answer = cloud.batch.list_jobs(multiNodeJobId=job_id, jobStatus="SUCCEEDED")
    assert [
        (node["jobId"], node["nodeProperties"]["isMainNode"]) for node in answer["jobSummaryList"]
    ] == [(f"{job_id}#0", True), (f"{job_id}#1", False)]


def test_a_node_that_cannot_start_fails_the_job(cloud):
    definition = cloud.batch.register_job_definition(
        jobDefinitionName=cloud.name("nodes"),
        type="multinode",
        nodeProperties={
            "numNodes": 2,
            "mainNode": 0,
            "nodeRangeProperties": [
                {"targetNodes": "0", "container": cloud.container(["sleep", "600"])},
                {"targetNodes": "1", "container": cloud.container(["no-such-program"])},
            ],
        },
    )["jobDefinitionArn"]
    job = cloud.finish(cloud.submit(definition))
    assert (job["status"], job["statusReason"]) == ("FAILED", "Task failed to start")


@pytest.mark.parametrize(
    ("ranges", "overrides", "message"),
    [
        ([("0:1", "true")], {"nodeOverrides": {"numNodes": 3}}, "open end"),
        ([("0", "true")], {}, "no container for node 1"),
        ([("0:", "true")], {"containerOverrides": {"command": ["x"]}}, "nodeOverrides"),
        ([("0:", "true")], {"arrayProperties": {"size": 2}}, "array job"),
    ],
)
def test_impossible_nodes_are_refused(cloud, define_nodes, ranges, overrides, message):
    with pytest.raises(ClientError, match=message):
        cloud.submit(define_nodes(*ranges, num_nodes=2), **overrides)
