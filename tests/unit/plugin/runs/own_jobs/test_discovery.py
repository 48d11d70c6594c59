"""What is found of a side, and which sides are refused."""

import re
from contextlib import nullcontext

import pytest
from botocore.exceptions import ClientError

from batchmark.aws.job_description import RETRY_RULES
from batchmark.core.errors import PlanError
from batchmark.runs.own_jobs.discovery import discover
from tests.builders.existing_jobs import definition, environment, instance_type, queue, side
from tests.builders.leaks import ARN, REGION
from tests.stand_ins.stubbed_clients import StubbedClients

C5 = [
    instance_type("c5.4xlarge", 16, 32768),
    instance_type("c5.large", 2, 4096),
    instance_type("c5.xlarge", 4, 8192),
]
FLAT = instance_type("c5.flat", 16, 1024)
GPUS = [instance_type("g4dn.xlarge", 4, 16384, 1), instance_type("g4dn.12xlarge", 48, 196608, 4)]

SEVERAL = definition(
    ecsProperties={"taskProperties": [{"containers": [{"image": "a"}, {"image": "b"}]}]}
)
LOG = {"logGroupName": "/aws/batch/job", "limit": 1}
ALLOWED = (f"{ARN}:job-definition/resize",)


@pytest.fixture
def clients():
    return StubbedClients(REGION)


def answer(clients, queues=None, environments=None, definitions=None, types=C5, log=LOG, **asked):
    """Answer for one side; what is None is as it should be, `asked` what has to be asked for."""
    found = [queue()] if queues is None else queues
    clients.answer("batch", "describe_job_queues", {"jobQueues": found})
    if environments is None:
        environments = [environment("plain"), environment("cheap")]
    clients.answer("batch", "describe_compute_environments", {"computeEnvironments": environments})
    found = {"jobDefinitions": [definition()] if definitions is None else definitions}
    clients.answer("batch", "describe_job_definitions", found, asked.get("of_definitions"))
    found = {"InstanceTypes": types}
    clients.answer("ec2", "describe_instance_types", found, asked.get("of_types"))
    if isinstance(log, str):
        clients.refuse("logs", "filter_log_events", log, "said AWS")
    elif log:
        clients.answer("logs", "filter_log_events", {"events": []}, log)


def only(clients, **changes):
    (found,) = discover(clients, [side(**changes)], ALLOWED).values()
    return found


def test_a_side_is_found_with_all_that_it_may_run_on(clients):
    answer(clients)
    found = only(clients, parameters={"quality": "50"})
    target = found.target
    assert found.types == ("c5.large", "c5.xlarge", "c5.4xlarge"), "the smallest first"
    assert (target.instance_type, target.vcpus, target.memory_mib) == ("c5.large", 2, 2048)
    assert (target.device, target.gpus, target.attempts) == ("cpu", 0, 1)
    assert (target.timeout_seconds, target.on_demand_queue) == (900, None)
    assert target.job_queue == f"{ARN}:job-queue/images"
    assert target.job_definition == f"{ARN}:job-definition/resize:7"
    kept = target.compute_environments
    assert (kept.spot, kept.on_demand, kept.more) == ("cheap", "plain", ())
    assert found.command == ("convert", "--size", "Ref::size", "--quality=Ref::quality")
    assert found.parameters == {"quality": "50", "size": "1"}
    assert found.notes == ()
    clients.assert_all_was_asked()
    answer(clients)
    found = only(clients, vcpus=4, memory_mib=9000, timeout_seconds=60, command=["a"])
    assert found.types == ("c5.4xlarge",)
    assert (found.target.vcpus, found.target.memory_mib) == (4, 9000)
    assert (found.target.timeout_seconds, found.command) == (60, ("a",))


@pytest.mark.parametrize(
    ("allowed", "may"),
    [
        ((), False),
        (("other", "resize"), True),
        (("res*",), True),
        (("resize-*", "re", "size", "resize:7", "Resize"), False),
    ],
)
def test_only_definitions_that_terraform_allows_are_run_in_any_revision(clients, allowed, may):
    arns = [f"{ARN}:job-definition/{name}" for name in allowed]
    told = (
        "side 'old': job definition resize:7 must be allowed explicitly, because whoever starts a "
        f"comparison can run any command with its role: add {ARN}:job-definition/resize to "
        "job_definition_arns in Terraform's comparison_access or in its job_comparison stack, and "
        f"apply; currently allowed: {', '.join(arns) or 'none'}"
    )
    answer(clients)
    with nullcontext() if may else pytest.raises(PlanError, match=f"^{re.escape(told)}$"):
        assert discover(clients, [side()], arns)


def test_all_environments_of_a_queue_are_kept_and_a_job_that_asks_for_a_gpu_runs_on_cuda(clients):
    kinds = {"cheap": "SPOT", "plain": "EC2", "cheap-2": "SPOT"}
    order = [
        {"order": number, "computeEnvironment": f"{ARN}:compute-environment/{name}"}
        for number, name in enumerate(kinds)
    ]
    environments = [environment(name, resources={"type": kind}) for name, kind in kinds.items()]
    answer(clients, queues=[queue(computeEnvironmentOrder=order)], environments=environments)
    kept = only(clients).target.compute_environments
    assert (kept.names, kept.more) == (tuple(kinds), ("cheap-2",))
    gpus = [environment("plain", resources={"instanceTypes": ["g4dn"]})]
    requirements = [{"type": "GPU", "value": "1"}, {"type": "MEMORY", "value": "2048"}]
    defined = definition(container={"resourceRequirements": requirements}, timeout={})
    answer(clients, environments=gpus, definitions=[defined], types=GPUS)
    found = only(clients)
    assert (found.target.device, found.target.gpus) == ("cuda", 1)
    assert found.types == ("g4dn.xlarge", "g4dn.12xlarge")
    assert found.target.timeout_seconds == 3600


@pytest.mark.parametrize(
    ("memory_mib", "smallest", "told"),
    [
        (4096, "c5.xlarge", False),
        (4095, "c5.large", False),
        (30720, "c5.4xlarge", False),
        (30721, "c5.4xlarge", True),
    ],
)
def test_some_of_an_instances_memory_is_never_a_jobs(clients, memory_mib, smallest, told):
    answer(clients)
    found = only(clients, memory_mib=memory_mib)
    assert found.types[0] == smallest
    said = "of memory, but no instance that it can get has more than 32768, and ECS reserves"
    assert [said in note for note in found.notes] == [True] * told


@pytest.mark.parametrize(
    ("named", "asked"),
    [
        (["c5.large", "m5.large"], ["c5.large", "m5.large"]),
        (["c5"], ["c5.*"]),
        (["default_arm64"], ["c6g.*", "c7g.*", "m6g.*", "r6g.*"]),
    ],
)
def test_families_and_bundles_are_resolved(clients, named, asked):
    one = environment("plain", resources={"instanceTypes": named})
    filters = {"Filters": [{"Name": "instance-type", "Values": asked}]}
    answer(clients, environments=[one], of_types=filters)
    assert only(clients)
    clients.assert_all_was_asked()


def test_without_a_revision_it_is_the_newest_active_one_and_else_the_one_named(clients):
    revisions = [
        definition(revision=each, jobDefinitionArn=f"{ARN}:job-definition/resize:{each}")
        for each in (9, 10, 2)
    ]
    newest = {"jobDefinitionName": "resize", "status": "ACTIVE"}
    answer(clients, definitions=revisions, of_definitions=newest)
    arn = f"{ARN}:job-definition/resize:2"
    named = {"jobDefinitions": [arn]}
    clients.answer("batch", "describe_job_definitions", {"jobDefinitions": revisions[2:]}, named)
    sides = [side("a"), side("b", job_definition=arn), side("c")]
    found = discover(clients, sides, ALLOWED)
    revisions = {name: each.target.job_definition[-2:] for name, each in found.items()}
    assert revisions == {"a": "10", "b": ":2", "c": "10"}
    clients.assert_all_was_asked()  # and nothing twice


RENDER = {"awslogs_group": "/render"}


def logging(driver="awslogs", mode="blocking", **options):
    options = {"mode": mode} | {name.replace("_", "-"): value for name, value in options.items()}
    return definition(container={"logConfiguration": {"logDriver": driver, "options": options}})


@pytest.mark.parametrize(
    ("options", "log", "problem"),
    [
        ({"driver": "splunk"}, None, "its definition uses the log driver splunk: choose one that"),
        ({"awslogs_region": "us-west-2"}, None, "its definition logs to us-west-2: choose one"),
        (
            RENDER,
            "AccessDeniedException",
            "Airflow is not allowed to read its log group /render (AccessDeniedException): add it "
            "to Terraform's log_group_names",
        ),
        (RENDER, "ResourceNotFoundException", "its log group /render does not exist: create it"),
    ],
)
def test_what_takes_a_log_that_nobody_can_read_is_refused(clients, options, log, problem):
    asked = {"definitions": [logging(**options)], "log": log}
    answer(clients, **asked)
    (note,) = only(clients).notes
    assert note.startswith(f"Side old: its metrics and host will be unknown, because {problem}")
    for wish in ({"check": "test -s out"}, {"output": "out"}):
        answer(clients, **asked)
        with pytest.raises(PlanError) as refused:
            only(clients, **wish)
        why = f"side 'old': its check or output is read from the job's log, but {problem}"
        assert str(refused.value).startswith(why)
        assert str(refused.value).endswith("; or omit both")
    clients.assert_all_was_asked()


@pytest.mark.parametrize(
    ("options", "log"),
    [
        (RENDER, {"logGroupName": "/render", "limit": 1}),
        ({}, "ResourceNotFoundException"),
        (RENDER | {"awslogs_create_group": "true"}, "ResourceNotFoundException"),
    ],
)
def test_a_log_group_that_is_there_or_will_be_made_is_in_order(clients, options, log):
    answer(clients, definitions=[logging(**options)], log=log)
    assert only(clients, check="test -s out").notes == ()


@pytest.mark.parametrize(
    ("configured", "how"),
    [
        ({"options": {"mode": "non-blocking"}}, "in mode non-blocking"),
        ({}, "without a mode, so non-blocking by ECS's default"),
    ],
)
def test_a_log_that_may_lose_lines_is_told(clients, configured, how):
    log = {"logConfiguration": {"logDriver": "awslogs"} | configured}
    answer(clients, definitions=[definition(container=log)])
    (note,) = only(clients, check="test -s out").notes
    assert note == (
        "Side old: its log may lose lines, including metrics, because its definition "
        f"uses awslogs {how}: set mode to blocking."
    )


@pytest.mark.parametrize("code", ["AccessDeniedException", "ClientException"])
def test_what_aws_refuses_for_good_is_no_task_to_try_again_unlike_a_throttled_log(clients, code):
    clients.refuse("batch", "describe_job_queues", code, "no")
    with pytest.raises(PlanError, match=f"side 'old' can't be found: {code}: no"):
        only(clients)
    answer(clients, log="ThrottlingException")
    with pytest.raises(ClientError, match="ThrottlingException"):
        only(clients)


OTHER_RULES = [{"action": "RETRY", "onExitCode": "137"}, {"action": "EXIT", "onReason": "*"}]
SENT_RULES = [rule | {"action": rule["action"].lower()} for rule in RETRY_RULES]


@pytest.mark.parametrize(
    ("strategy", "told"),
    [
        ({}, False),
        ({"attempts": 3}, True),
        ({"attempts": 3, "evaluateOnExit": OTHER_RULES}, True),
        ({"attempts": 3, "evaluateOnExit": SENT_RULES}, False),
        ({"attempts": 1, "evaluateOnExit": OTHER_RULES}, False),
    ],
)
def test_retry_rules_that_will_not_count_are_told(clients, strategy, told):
    answer(clients, definitions=[definition(retryStrategy=strategy)])
    said = "Side old: its definition's retry strategy"
    assert [note.startswith(said) for note in only(clients).notes] == [True] * told


EKS = {"eksClusterArn": "a", "kubernetesNamespace": "b"}
FAIR = queue(schedulingPolicyArn=f"{ARN}:scheduling-policy/fair")
INACTIVE = definition(status="INACTIVE")
SHORT = definition(timeout={"attemptDurationSeconds": 30})


def broken(**changes):
    return [environment("plain", **changes), environment("cheap", **changes)]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"queues": [queue(state="DISABLED")]}, "queue images is DISABLED and VALID (no rea"),
        ({"queues": [queue(status="INVALID", statusReason="gone")]}, "ENABLED and INVALID (gone)"),
        ({"queues": [FAIR]}, "queue images uses the scheduling policy fair, which needs a share"),
        ({"environments": broken(state="DISABLED")}, "no compute environment that is ENABLED and"),
        ({"environments": broken(type="UNMANAGED")}, "cheap of queue images is UNMANAGED: Ba"),
        ({"environments": broken(resources={"type": "FARGATE"})}, "of queue images uses FARGATE"),
        ({"environments": broken(eksConfiguration=EKS)}, "of queue images uses EKS: Batchmark"),
        ({"definitions": []}, "no ACTIVE job definition 'resize' in this region: specify"),
        ({"definitions": [INACTIVE], "job_definition": "resize:7"}, "is INACTIVE: use an ACTIVE"),
        ({"definitions": [definition(type="multinode")]}, "resize:7 is of type multinode: use one"),
        ({"definitions": [SEVERAL]}, "resize:7 has ecsProperties: use one with containerProp"),
        ({"definitions": [definition(platformCapabilities=["FARGATE"])]}, "7 is for Fargate"),
        ({"definitions": [SHORT]}, "its definition's timeout is 30 s, below Batch's minimum of 60"),
        ({"gpus": 1}, "1 GPU, but none of the queue's instance types (c5) has more than 0: lower"),
        ({"vcpus": 17}, "17 vCPUs, but none of the queue's instance types (c5) has more than 16"),
        ({"types": [*C5[1:], FLAT], "vcpus": 16, "memory_mib": 8192}, "8192 MiB, 0 GPUs, but no "),
        ({"memory_mib": 32768}, "has all of that in addition to ECS's share"),
    ],
)
def test_what_can_not_be_run_or_measured_is_refused(clients, given, message):
    """By what AWS answers, or by what the side asks for."""
    answers = given.keys() & {"queues", "environments", "definitions", "types"}
    answer(clients, **{name: given[name] for name in answers})
    asked = {name: given[name] for name in given.keys() - answers}
    with pytest.raises(PlanError, match=re.escape(message)) as refused:
        only(clients, **asked)
    assert str(refused.value).startswith("side 'old': ")


def test_an_unknown_queue_is_refused_with_those_that_there_are(clients):
    clients.answer("batch", "describe_job_queues", {"jobQueues": []})
    clients.answer("batch", "describe_job_queues", {"jobQueues": [queue()]})
    with pytest.raises(PlanError, match=r"no job queue 'image' in this region \(did you mean ima"):
        only(clients, job_queue="image")
