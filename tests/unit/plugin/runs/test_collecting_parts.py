"""Jobs of several parts: arrays, whose first child tells, and nodes, of which the main one does."""

import pytest

from batchmark.analysis.cost import job_cost
from batchmark.core.names import full_name
from batchmark.runs.collecting import LEFT_OVER
from tests.builders.runs import PRICES
from tests.builders.scaling import planned
from tests.builders.watched_jobs import CREATED, JOB_ID, STARTED, STOPPED
from tests.stand_ins.batch import RECLAIMED
from tests.stand_ins.collected_jobs import (
    OTHER_ID,
    PLAN,
    RUN_ID,
    Account,
    collected,
    described,
    document,
    event,
)

SECOND = 1000
LASTED = 90.5  # seconds, from STARTED to STOPPED
CHILD = f"{JOB_ID}:0"
OF_FIRST_CHILD = document(job_id=CHILD)


def array_of(*children):
    """A parent, whose own fields tell nothing, and its children with these fields."""
    failed = any(child.get("status") == "FAILED" for child in children)
    reason = {"statusReason": "Array Child Job failed"} if failed else {}
    size = {"size": len(children)}
    parent = described("FAILED" if failed else "SUCCEEDED", arrayProperties=size, **reason)
    for name in ("startedAt", "container", "attempts"):
        del parent[name]
    found = []
    for index, fields in enumerate(children):
        own = {"jobId": f"{JOB_ID}:{index}", "arrayProperties": {"index": index}}
        own["container"] = {"logStreamName": f"g5.xlarge/default/{index}"}
        child = described() | own | fields
        attempt = {name: child[name] for name in ("startedAt", "stoppedAt")}
        found.append(child | {"attempts": [attempt]})
    return [parent, *found]


FIRST = {"createdAt": CREATED + 5 * SECOND}
EARLY = {"startedAt": STARTED - 3 * SECOND}
LATE = {"stoppedAt": STOPPED + 4 * SECOND}
DIED = {"status": "FAILED", "statusReason": "Essential container in task exited"}


def test_an_array_job_counts_by_its_first_child_and_is_charged_once_for_the_time_of_all():
    events = [
        event("RUNNABLE", "2026-11-20T00:58:40Z"),  # the parent's
        event("RUNNABLE", "2026-11-20T00:58:41Z", job_id=CHILD),
        event("RUNNABLE", "2026-11-20T00:58:42Z", job_id=f"{JOB_ID}:1"),
    ]
    jobs = array_of(FIRST, EARLY, LATE)
    (job,) = collected(*jobs, documents=[OF_FIRST_CHILD], events=events).jobs
    assert (job.job_id, job.job_attempt) == (CHILD, 1)
    assert job.document_uri.endswith(f"/{JOB_ID}_0.1.json")
    assert job.log_stream == "g5.xlarge/default/0"
    assert job.created_at.timestamp() * SECOND == CREATED, "as it was submitted"
    assert job.started_at.timestamp() * SECOND == STARTED
    assert (f"{job.runnable_at:%X}", job.starting_at) == ("00:58:41", None)
    assert job.failure is None
    assert (job.stopped_at - job.started_at).total_seconds() == LASTED
    assert job_cost(job, PRICES).seconds == LASTED + 7


def test_an_array_job_is_charged_for_all_attempts_and_for_what_it_replaced():
    """Of each child one of 40 s; then one that began 3 s early, within which two others ran."""
    lost = {"startedAt": STARTED - 90 * SECOND, "stoppedAt": STARTED - 50 * SECOND}
    short = {"stoppedAt": STOPPED - 30 * SECOND}
    late = {"startedAt": STOPPED - 20 * SECOND}
    parent, *children = array_of(EARLY, short, late)
    for child in children:
        child["attempts"].insert(0, lost)
    (job,) = collected(parent, *children, documents=[OF_FIRST_CHILD | {"job_attempt": 2}]).jobs
    assert (job.job_attempt, job.charged_seconds) == (2, 40 + LASTED + 3)
    spot = [
        job | {"jobId": job["jobId"].replace(JOB_ID, OTHER_ID), "createdAt": 1}
        for job in array_of({}, DIED | {"statusReason": RECLAIMED})
    ]
    (job,) = collected(*array_of({}, {}), *spot, documents=[OF_FIRST_CHILD]).jobs
    assert job.replaced_job_id == OTHER_ID
    assert job.charged_seconds == 2 * LASTED


def test_a_failed_child_is_named_and_of_a_lost_array_the_time_of_its_instance_kept_once():
    container = {"logStreamName": "g5.xlarge/default/2", "exitCode": 139}
    jobs = array_of({}, {}, DIED | {"container": container})
    account = Account(*jobs, documents=[OF_FIRST_CHILD])
    (job,) = account.collected().jobs
    assert account.streams == ["g5.xlarge/default/0", "g5.xlarge/default/2"]
    assert "1 of 3 children failed:\n2: exit code 139 (segmentation fault); status" in job.failure
    assert "log stream g5.xlarge/default/2 in" in job.failure
    (lost,) = collected(*array_of(DIED, DIED, DIED)).lost
    assert (lost.job_id, lost.seconds) == (JOB_ID, LASTED)
    assert "3 of 3 children failed:\n0: no exit code" in lost.reason


def test_an_array_left_running_is_ended_by_its_parent_alone():
    parent, *children = array_of({"status": "RUNNING"}, {"status": "RUNNABLE"}, {})
    account = Account(parent | {"status": "PENDING"}, *children)
    (lost,) = account.collected().lost
    assert account.terminated == [(JOB_ID, LEFT_OVER)]
    assert "was still RUNNABLE" in lost.reason


ON_2_NODES = PLAN.model_copy(update={"scaling": planned(node_counts=[2])[0].scaling})
MAIN_NODE = f"{JOB_ID}#0"
OF_MAIN_NODE = document(job_id=MAIN_NODE)


def of_nodes(status="SUCCEEDED", **fields):
    """A multi-node job, whose own fields tell little, and its main node with these fields."""
    name = full_name("batchmark-g5-xlarge-smoke-on-2-1", RUN_ID, 0)
    nodes = {"numNodes": 2, "mainNode": 0, "nodeRangeProperties": []}
    job = described(status, jobName=name, nodeProperties=nodes)
    del job["container"]
    own = {"jobId": MAIN_NODE, "nodeDetails": {"nodeIndex": 0, "isMainNode": True}}
    own["container"] = {"logStreamName": "nodes/default/0"}
    return [job, described(status, jobName=name) | own | fields]


def test_a_multi_node_job_counts_by_its_main_node_and_is_charged_for_all_its_nodes():
    states = {"RUNNABLE": "2026-11-20T00:58:40Z", "STARTING": "2026-11-20T00:59:30Z"}
    left = {"documents": [OF_MAIN_NODE], "events": [event(*told) for told in states.items()]}
    (job,) = collected(*of_nodes(), **left, plan=ON_2_NODES).jobs
    assert (job.job_id, job.job_attempt) == (MAIN_NODE, 1)
    assert job.document_uri.endswith(f"/{JOB_ID}_0.1.json")
    assert job.log_stream == "nodes/default/0"
    assert (f"{job.runnable_at:%X}", f"{job.starting_at:%X}") == ("00:58:40", "00:59:30")
    assert job.failure is None
    assert (job.stopped_at - job.started_at).total_seconds() == LASTED
    cost = job_cost(job, PRICES)
    assert (cost.nodes, cost.seconds) == (2, 2 * LASTED)
    assert cost.usd == pytest.approx(2 * LASTED / 3600 * 1.006)


def test_a_lost_multi_node_job_is_charged_for_all_its_nodes_and_says_what_the_main_node_did():
    container = {"logStreamName": "nodes/default/0", "exitCode": 3}
    account = Account(*of_nodes("FAILED", container=container), plan=ON_2_NODES)
    (lost,) = account.collected().lost
    assert account.streams == ["nodes/default/0"]
    assert (lost.job_id, lost.seconds) == (JOB_ID, 2 * LASTED)
    assert "Its main node: exit code 3" in lost.reason
    assert "log stream nodes/default/0 in" in lost.reason
    job, _ = of_nodes("FAILED", attempts=[])
    job |= {"attempts": [], "statusReason": "it waited too long"}
    del job["startedAt"]
    (lost,) = collected(job, plan=ON_2_NODES).lost
    assert lost.seconds == 0
    assert "status reason: it waited too long" in lost.reason
