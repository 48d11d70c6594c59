"""Which Batch job, or part of one, counts for a planned one, what it left, and what else ran."""

import json
from hashlib import sha256

import pytest
from botocore.exceptions import ClientError

from batchmark.analysis.comparison import compare
from batchmark.analysis.cost import job_cost
from batchmark.core.names import full_name
from batchmark.runs.collected_runs import store_run
from batchmark.runs.collecting import LEFT_OVER, SUPERSEDED
from tests.builders.runs import PRICES
from tests.builders.scaling import planned
from tests.builders.watched_jobs import CREATED, JOB_ID, STARTED, STOPPED
from tests.stand_ins.batch import RECLAIMED, client_error
from tests.stand_ins.collected_jobs import (
    LABEL,
    OTHER_ID,
    PLAN,
    RUN_ID,
    Account,
    collected,
    described,
    document,
    event,
)
from tests.stand_ins.failing_calls import failing

DONE = described()
RAN = {"startedAt": STARTED, "stoppedAt": STOPPED}
SPOT = described(
    "FAILED", jobId=OTHER_ID, attempts=[RAN], createdAt=CREATED - 100_000, statusReason=RECLAIMED
)
ON_DEMAND = DONE | {"jobQueue": "on-demand-queue"}
LEFT = document(job_id=OTHER_ID, status="interrupted")


def ids(run):
    return [job.job_id for job in run.jobs]


def test_a_job_without_a_document_loses_itself_only_and_none_is_read_if_it_never_started():
    account = Account(described("FAILED", code=3, earlier=[RAN]))
    (lost,) = account.collected().lost
    assert account.streams == ["own/default/1"]
    assert (lost.job_id, lost.seconds, lost.instance_type) == (JOB_ID, 181.0, "g5.xlarge")
    assert "exit code 3" in lost.reason
    assert f"{PLAN.result_prefix}{JOB_ID}.2.json can't be read (NoSuchKey)" in lost.reason
    odd = described()
    del odd["attempts"]
    (lost,) = collected(odd, documents=[document()]).lost
    assert lost.reason == "unexpected KeyError: 'attempts'"
    never = described("FAILED", code=None, statusReason="Task failed to start")
    del never["startedAt"]
    account = Account(never)
    (lost,) = account.collected().lost
    assert "Task failed to start" in lost.reason
    assert [key for _, key in account.s3.calls] == [
        "runs/run/logs/g5.xlarge/smoke-1.log",
        "runs/run/collected.json",
    ]


@pytest.mark.parametrize(
    "times",
    [
        {"startedAt": STOPPED, "stoppedAt": STOPPED},
        {"startedAt": STOPPED + 35_000, "stoppedAt": STOPPED},
        {"stoppedAt": STOPPED},
        {"startedAt": STARTED},
    ],
)
def test_a_job_whose_times_can_not_be_by_batch_has_its_own_clocks(times):
    odd = {name: value for name, value in DONE.items() if name not in RAN} | times
    left = document(started_at="2026-11-21T01:00:00Z", finished_at="2026-11-21T01:00:40Z")
    (job,) = collected(odd, documents=[left]).jobs
    assert (job.batch_seconds, job.charged_seconds) == (40.0, 40.0)


def test_a_job_of_which_no_times_can_be_is_charged_for_nothing_that_is_known():
    left = document(started_at="2026-11-21T01:00:00Z", finished_at="2026-11-21T01:00:00Z")
    (job,) = collected(described(startedAt=STOPPED + 1), documents=[left]).jobs
    assert (job.batch_seconds, job.charged_seconds) == (None, None)
    cost = job_cost(job, PRICES)
    assert (cost.seconds, cost.usd) == (None, None)
    assert cost.reason == "A g5.xlarge job has impossible timestamps, so its run time is unknown."


def test_what_batch_says_of_the_container_of_a_job_that_succeeded_stands_in_the_report():
    killed = described(container={"reason": "OutOfMemoryError: killed"})
    run = collected(killed, documents=[document()])
    (note,) = compare(run, PRICES).notices[:1]
    assert note == (
        "1 of 1 job: Batch reports a problem with its container, which exited with code "
        "0: OutOfMemoryError: killed"
    )
    assert collected(DONE, documents=[document()]).jobs[0].doubt is None


def test_time_and_documents_of_all_attempts_before_the_last_are_kept():
    """Of three: one whose container never started, one that ran 70 s."""
    reclaimed = {"startedAt": STARTED - 90_000, "stoppedAt": STARTED - 20_000}
    retried = described(attempts=[{"statusReason": "gone"}, reclaimed, RAN])
    left = [document(job_attempt=3), document(job_attempt=2, status="interrupted")]
    (job,) = collected(retried, documents=left).jobs
    assert (job.job_attempt, job.earlier_seconds) == (3, 70.0)
    assert [attempt.job_attempt for attempt in job.interrupted] == [2]


@pytest.mark.parametrize(
    "attempt", [{"startedAt": STARTED - 90_000}, {"stoppedAt": STARTED, "startedAt": STARTED}]
)
def test_with_an_earlier_attempt_whose_times_can_not_be_no_job_seems_cheaper(attempt):
    retried = described(attempts=[attempt, RAN])
    (job,) = collected(retried, documents=[document(job_attempt=2)]).jobs
    assert (job.earlier_seconds, job.charged_seconds, job.batch_seconds) == (None, None, 90.5)


def test_a_job_that_its_task_never_told_of_is_found_by_name():
    older = described("FAILED", jobId=OTHER_ID, createdAt=CREATED - 1)
    foreign = described("RUNNING", jobId="foreign", jobName=full_name(LABEL, "another run", 0))
    account = Account(DONE, older, foreign, documents=[document()])
    assert ids(account.collected(job_id=None)) == [JOB_ID]
    assert account.terminated == []
    (lost,) = Account(foreign).collected(job_id=None).lost
    assert lost.reason == "no job was submitted; see the log of the Airflow task for this job"


def test_the_job_of_a_cleared_task_counts_for_the_cost_only_and_a_replaced_one_as_its_successors():
    cleared = described("FAILED", jobId=OTHER_ID, attempts=[RAN], createdAt=CREATED - 100_000)
    newer = described(jobName=full_name(LABEL, "run", 1))
    run = collected(newer, cleared, documents=[document()])
    assert ids(run) == [JOB_ID]
    assert run.lost == ()
    (other,) = run.superseded
    assert (other.job_id, other.seconds, other.reason) == (OTHER_ID, 90.5, SUPERSEDED)
    run = collected(described("FAILED", attempts=[RAN]), SPOT, documents=[LEFT])
    (lost,) = run.lost
    assert (lost.job_id, lost.seconds) == (JOB_ID, 181.0)
    assert [attempt.job_id for attempt in lost.interrupted] == [OTHER_ID]
    assert run.superseded == ()


@pytest.mark.parametrize("told_of", [JOB_ID, OTHER_ID])
def test_what_interrupted_attempts_measured_is_kept_and_listed(told_of):
    """A Spot job of two attempts, of which the first wrote a document, then On-Demand."""
    attempts = [
        {"startedAt": STARTED - 190_000, "stoppedAt": STARTED - 160_000},
        {"startedAt": STARTED - 150_000, "stoppedAt": STARTED - 145_000},
    ]
    account = Account(ON_DEMAND, SPOT | {"attempts": attempts}, documents=[document(), LEFT])
    (job,) = account.collected(job_id=told_of).jobs
    assert (job.job_id, job.replaced_job_id) == (JOB_ID, OTHER_ID)
    assert job.earlier_seconds == 35.0
    (attempt,) = job.interrupted
    assert (attempt.job_id, attempt.job_attempt, attempt.measured_rows) == (OTHER_ID, 1, 1)
    assert attempt.document_uri == f"{PLAN.result_prefix}{OTHER_ID}.1.json"
    assert attempt.document_sha256 == sha256(json.dumps(LEFT).encode()).hexdigest()


def test_what_was_collected_once_is_not_taken_with_another_content_however_often():
    """Its task is cleared, and the document was replaced meanwhile by a valid one of its job."""
    account = Account(DONE, documents=[document()])
    first = account.collected()
    store_run(account.store, first)
    collected_sha256 = first.jobs[0].document_sha256
    left = account.s3.objects[account.key()]
    assert collected_sha256 == sha256(left).hexdigest()
    account.s3.objects[account.key()] = json.dumps(document(total_seconds=1.0)).encode()
    for _ in range(2):
        run = account.collected()
        store_run(account.store, run)
        (lost,) = run.lost
        assert f"{JOB_ID}.1.json was replaced: its SHA-256 is " in lost.reason
        assert lost.document_sha256 == collected_sha256
    account.s3.objects[account.key()] = left
    assert account.collected() == first


def test_a_job_or_array_that_still_runs_is_ended_and_lost_or_says_why_not(caplog):
    double = described("RUNNABLE", jobId=OTHER_ID, jobQueue="on-demand-queue")
    account = Account(described("RUNNING"), double)
    (lost,) = account.collected().lost
    assert lost.reason.startswith(f"Batch job {JOB_ID} was still RUNNING, although no task was")
    assert account.terminated == [(JOB_ID, LEFT_OVER), (OTHER_ID, LEFT_OVER)]
    double = described("RUNNABLE", jobId=OTHER_ID, createdAt=CREATED - 1)
    account = refusing("AccessDeniedException", DONE, double, documents=[document()])
    assert ids(account.collected()) == [JOB_ID]
    assert f"Job {OTHER_ID} can't be terminated: An error occurred (AccessDenied" in caplog.text
    (lost,) = refusing("AccessDeniedException", described("RUNNING")).collected().lost
    assert "was waiting for it any more; it can't be terminated (An error" in lost.reason
    with pytest.raises(ClientError, match="TooManyRequests"):
        refusing("TooManyRequestsException", described("RUNNING")).collected()
    parent, *children = array_of({"status": "RUNNING"}, {"status": "RUNNABLE"}, {})
    account = Account(parent | {"status": "PENDING"}, *children)
    (lost,) = account.collected().lost
    assert account.terminated == [(JOB_ID, LEFT_OVER)]
    assert "was still RUNNABLE" in lost.reason


@pytest.mark.parametrize(
    "fields",
    [
        {"jobName": f"{DONE['jobName']}-debug"},
        {"tags": {}},
        {"tags": {"batchmark:installation": "another"}},
    ],
)
def test_a_copy_of_a_job_is_not_ended_and_does_not_count(fields):
    copy = described("RUNNING", jobId=OTHER_ID, createdAt=CREATED + 1, **fields)
    account = Account(DONE, copy, documents=[document()])
    run = account.collected(job_id=None)
    assert account.terminated == []
    assert (ids(run), run.superseded) == ([JOB_ID], ())


def refusing(code, *jobs, **left):
    """An account whose Batch ends no job."""
    account = Account(*jobs, **left)
    account.batch.terminate_job = failing(client_error(code))
    return account


@pytest.mark.parametrize("of", [JOB_ID, OTHER_ID])
def test_an_s3_that_refuses_for_now_loses_neither_a_job_nor_what_an_interrupted_one_measured(of):
    """The task fails and is tried again."""
    account = Account(ON_DEMAND, SPOT, documents=[document(), LEFT])

    def refuse(operation, key):
        if (operation, key) == ("GetObject", account.key(of)):
            raise client_error("SlowDown", 503)

    account.s3.on_call = refuse
    with pytest.raises(ClientError, match="SlowDown"):
        account.collected()


@pytest.mark.parametrize(("target", "bought"), [("g5.xlarge", "spot"), ("g6.xlarge", None)])
def test_the_compute_environment_of_a_target_tells_how_the_instance_was_bought(target, bought):
    """Unless the target is gone."""
    plan = PLAN.model_copy(update={"target": target})
    left = document(environment={"compute_environment": "g5-spot"}, target=target)
    (job,) = collected(DONE, documents=[left], plan=plan).jobs
    assert job.purchase_option == bought


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
