"""What AWS answers in bad cases, given to real clients by botocore's stubber."""

import json
from datetime import UTC, datetime
from io import BytesIO

import pytest
from botocore.awsrequest import AWSResponse
from botocore.exceptions import ClientError, EndpointConnectionError
from botocore.stub import ANY, Stubber
from urllib3 import HTTPResponse

from batchmark.analysis.cost import job_cost
from batchmark.aws.result_bucket import RunStore
from batchmark.aws.state_times import state_times
from batchmark.core.names import full_name
from batchmark.runs import collecting, result_documents
from batchmark.runs.collecting import LEFT_OVER, SUPERSEDED, collect_run
from tests.builders.installations import configured, target
from tests.builders.runs import GPU_ENVIRONMENT, PRICES, build_job, build_row
from tests.builders.scaling import planned
from tests.stand_ins.batch import client_error
from tests.stand_ins.stubbed_clients import client, session

LABEL = "batchmark-g5-xlarge-smoke-1"
JOB_ID = "11111111-2222-3333-4444-555555555555"
PLAN = build_job("g5.xlarge", [], suite="smoke").planned.model_copy(
    update={"result_prefix": "s3://results/raw/run/g5.xlarge/smoke/1/"}
)


EVENTS_GROUP = "/aws/events/batch/batchmark"
PUBLISHED = configured(
    events_log_group=EVENTS_GROUP,
    targets={
        "g5.xlarge": target(
            "cuda",
            job_queue="queue",
            on_demand_queue="on-demand-queue",
            compute_environments={"spot": "g5-spot", "on_demand": "g5-on-demand"},
        )
    },
)


def described(status, **fields):
    return {
        "jobId": JOB_ID,
        "jobArn": f"arn:aws:batch:us-east-1:123456789012:job/{JOB_ID}",
        "jobName": full_name(LABEL, "run", 0),
        "jobQueue": "queue",
        "jobDefinition": "definition",
        "status": status,
        "startedAt": 1_795_222_800_000,
        "createdAt": 1_795_222_700_000,
        "stoppedAt": 1_795_222_900_000,
        "attempts": [{}],
        "container": {"logStreamName": "g5.xlarge/default/abc"},
        "tags": {"batchmark:installation": "batchmark"},
    } | fields


@pytest.fixture
def collect():
    """Collect one job; AWS has no log of it."""
    clients = {name: client("us-east-1", name) for name in ("s3", "logs")}
    clients["batch"] = session("us-east-1").client("batch")
    stubs = {name: Stubber(clients[name]) for name in ("s3", "logs")}
    for stub in stubs.values():
        stub.activate()

    def run(
        job,
        *others,
        reads_document=True,
        document=None,
        earlier_documents=(),
        event_answers=None,
        logs=1,
        plan=PLAN,
        job_id=JOB_ID,
    ):
        """Of a run whose Batch has `others`, too; an earlier document may be None: not there.

        Batch's events are asked for where the job left a document; there are none.
        """
        batch = AnsweringBatch(clients["batch"], [job, *others])
        if job["status"] in ("SUCCEEDED", "FAILED"):
            for _ in range(logs):
                stubs["logs"].add_client_error("get_log_events", "ResourceNotFoundException")
            stubs["s3"].add_response(
                "put_object", {}, {"Bucket": "results", "Key": ANY} | ANY_UPLOAD
            )
            for text in [document] if reads_document else []:
                add_document(stubs["s3"], text)
        for text in earlier_documents:
            add_document(stubs["s3"], text)
        if event_answers is None:
            event_answers = [NO_EVENTS] if document and not isinstance(document, tuple) else []
        for events in event_answers:
            if isinstance(events, str):
                stubs["logs"].add_client_error("filter_log_events", events)
            else:
                stubs["logs"].add_response("filter_log_events", *events)
        collected = collect_run(
            RunStore(clients["s3"], "results", "run"),
            clients["batch"],
            clients["logs"],
            run_id="run",
            planned=[plan],
            job_ids=[job_id],
            config=PUBLISHED,
        )
        for stub in stubs.values():
            stub.assert_no_pending_responses()
        run.terminated = batch.terminated
        return collected

    yield run
    for stub in stubs.values():
        stub.deactivate()
    clients["batch"].close()


ANY_UPLOAD = {"Body": ANY, "ContentType": ANY}


MISSING = ("NoSuchKey", 404)


def add_document(stub, text):
    """What S3 answers: a text, an error's code and status, or that nothing is there."""
    if isinstance(text, str):
        body = text.encode()
        stub.add_response("get_object", {"Body": BytesIO(body), "ContentLength": len(body)})
    else:
        code, status = text or MISSING
        stub.add_client_error("get_object", code, http_status_code=status)


class AnsweringBatch:
    """Answers on the wire: the stubber insists on a startedAt, which AWS leaves out."""

    def __init__(self, client, jobs):
        self.jobs = jobs
        self.terminated = []
        for operation, answer in (
            ("DescribeJobs", self.describe_jobs),
            ("ListJobs", self.list_jobs),
            ("TerminateJob", self.terminate_job),
        ):
            client.meta.events.register(f"before-send.batch.{operation}", answer)

    def describe_jobs(self, request, **_):
        asked = json.loads(request.body)["jobs"]
        return self.answer(request, {"jobs": [job for job in self.jobs if job["jobId"] in asked]})

    def list_jobs(self, request, **_):
        asked = json.loads(request.body)
        prefix = asked["filters"][0]["values"][0].removesuffix("*")
        fields = ("jobId", "jobName", "status", "statusReason", "createdAt", "arrayProperties")
        found = [
            {name: job[name] for name in fields if name in job}
            for job in self.jobs
            if job["jobQueue"] == asked["jobQueue"]
            and job["jobName"].startswith(prefix)
            and not {":", "#"} & set(job["jobId"])
        ]
        return self.answer(request, {"jobSummaryList": found})

    def terminate_job(self, request, **_):
        asked = json.loads(request.body)
        self.terminated.append((asked["jobId"], asked["reason"]))
        return self.answer(request, {})

    def answer(self, request, body):
        content = HTTPResponse(BytesIO(json.dumps(body).encode()), preload_content=False)
        return AWSResponse(request.url, 200, {}, content)


@pytest.mark.parametrize("code", ["NoSuchKey", "NoSuchBucket"])
def test_a_document_that_is_not_there_loses_its_job_only(collect, code):
    collected = collect(described("SUCCEEDED"), document=(code, 404), event_answers=())
    assert collected.jobs == ()
    assert f"can't be read ({code})" in collected.lost[0].reason


def test_a_failed_job_without_a_document_keeps_its_own_reason(collect):
    failed = described("FAILED", statusReason="Essential container in task exited")
    failed["container"]["exitCode"] = 3
    collected = collect(failed, reads_document=True)
    assert "exit code 3" in collected.lost[0].reason


def test_of_a_job_without_a_document_the_time_of_all_attempts_is_kept(collect):
    ran = {"startedAt": 1_795_222_800_000, "stoppedAt": 1_795_222_890_500}
    failed = described("FAILED", attempts=[ran, ran])
    (lost,) = collect(failed, earlier_documents=[None]).lost
    assert (lost.job_id, lost.seconds, lost.instance_type) == (JOB_ID, 181.0, "g5.xlarge")


def test_a_job_that_never_started_loses_itself_only(collect):
    never = described("FAILED", statusReason="Task failed to start")
    del never["startedAt"]
    collected = collect(never, reads_document=False)
    assert "Task failed to start" in collected.lost[0].reason


def test_a_job_that_batch_describes_in_an_unknown_way_loses_itself_only(collect):
    odd = described("SUCCEEDED")
    del odd["stoppedAt"]
    text = build_job("g5.xlarge", [], suite="smoke").document.model_copy(
        update={"run_id": "run", "job_id": JOB_ID}
    )
    (lost,) = collect(odd, document=text.to_json(), event_answers=[]).lost
    assert lost.reason == "unexpected KeyError: 'stoppedAt'"


@pytest.mark.parametrize("text", ["[" * 5000, '{"schema_version": 2, "x": ' + "[" * 5000])
def test_a_document_of_any_depth_loses_its_job_only(collect, text):
    (lost,) = collect(described("SUCCEEDED"), document=text, event_answers=[]).lost
    assert "not a result document: invalid JSON (recursion limit exceeded" in lost.reason


def test_a_document_that_nobody_foresaw_loses_its_job_only(collect, monkeypatch):
    def fail(_):
        raise OverflowError("too\nlarge")

    monkeypatch.setattr(result_documents, "parse_document", fail)
    (lost,) = collect(described("SUCCEEDED"), document="{}", event_answers=[]).lost
    assert lost.reason.endswith(f"{JOB_ID}.1.json: unexpected OverflowError: too large")


DONE = described("SUCCEEDED", attempts=[{}])
SPAN = {"startTime": DONE["createdAt"] - 1000, "endTime": DONE["stoppedAt"] + 60_000}
ASKED = {"logGroupName": EVENTS_GROUP, "filterPattern": '"Batch Job State Change"'} | SPAN
NO_EVENTS = ({"events": []}, ASKED)


def document(*rows, **environment):
    """What the job left, as it lies in S3."""
    job = build_job(
        "g5.xlarge",
        rows or [build_row([0.1] * 8)],
        suite="smoke",
        job_id=JOB_ID,
        environment=GPU_ENVIRONMENT.model_copy(update=environment),
    )
    return job.document.model_copy(update={"run_id": "run"}).to_json()


def event(status, time, *, job_id=JOB_ID, kind="Batch Job State Change"):
    body = {"detail-type": kind, "time": time, "detail": {"jobId": job_id, "status": status}}
    return {"message": json.dumps(body)}


def moments(job):
    return [moment and f"{moment:%H:%M:%S}" for moment in (job.runnable_at, job.starting_at)]


def test_state_times_come_from_all_pages_of_the_jobs_own_events(collect):
    first = [
        event("SUBMITTED", "2026-11-20T00:58:20Z"),
        event("RUNNABLE", "2026-11-20T00:58:21Z"),
        event("RUNNABLE", "2026-11-20T00:59:00Z", job_id=f"{JOB_ID}:0"),
        event("RUNNABLE", "2026-11-20T00:59:01Z", kind="Batch Job Queue Blocked"),
    ]
    second = [event("STARTING", "2026-11-20T00:59:30Z"), event("RUNNING", "2026-11-20T01:00:00Z")]
    pages = [
        ({"events": first, "nextToken": "more"}, ASKED),
        ({"events": second}, ASKED | {"nextToken": "more"}),
    ]
    (job,) = collect(DONE, document=document(), event_answers=pages).jobs
    assert moments(job) == ["00:58:21", "00:59:30"]


def test_of_a_retried_job_the_last_attempts_times_count(collect):
    events = [event("RUNNABLE", "2026-11-20T00:59:10Z"), event("RUNNABLE", "2026-11-20T00:58:21Z")]
    answers = [({"events": events}, ASKED)]
    (job,) = collect(DONE, document=document(), event_answers=answers).jobs
    assert moments(job) == ["00:59:10", None]


@pytest.mark.parametrize(
    "code", ["ResourceNotFoundException", "AccessDeniedException", "ThrottlingException"]
)
def test_events_that_can_not_be_had_harm_nothing(collect, caplog, code):
    (job,) = collect(DONE, document=document(), event_answers=[code]).jobs
    assert moments(job) == [None, None]
    assert f"STARTING are missing: log group {EVENTS_GROUP}: " in caplog.text
    assert code in caplog.text


@pytest.mark.parametrize(
    "message",
    [
        "no JSON",
        "[]",
        '{"detail-type": "Batch Job State Change"}',
        event("RUNNABLE", "noon")["message"],
    ],
)
def test_an_event_of_another_shape_is_left_out_alone(collect, caplog, message):
    events = [{"message": message}, event("STARTING", "2026-11-20T00:59:30Z")]
    answers = [({"events": events}, ASKED)]
    (job,) = collect(DONE, document=document(), event_answers=answers).jobs
    assert moments(job) == [None, "00:59:30"]
    assert "An event of Batch is left out: " in caplog.text


def test_an_endpoint_that_can_not_be_reached_harms_nothing(caplog):
    class Unreachable:
        def get_paginator(self, name):
            raise EndpointConnectionError(endpoint_url=f"https://logs.example/{name}")

    now = datetime(2026, 11, 20, tzinfo=UTC)
    times = state_times(Unreachable(), EVENTS_GROUP, {JOB_ID}, created_at=now, stopped_at=now)
    assert times == {JOB_ID: (None, None)}
    assert "Could not connect to the endpoint URL" in caplog.text


def test_the_time_of_all_attempts_before_the_last_is_kept(collect):
    """Of three: one that ran 70 s, one whose container never started."""
    reclaimed = {"startedAt": 1_795_222_710_000, "stoppedAt": 1_795_222_780_000}
    last = {"startedAt": DONE["startedAt"], "stoppedAt": DONE["stoppedAt"]}
    retried = described("SUCCEEDED", attempts=[reclaimed, {"statusReason": "gone"}, last])
    third = json.loads(document()) | {"job_attempt": 3}
    (job,) = collect(retried, document=json.dumps(third), earlier_documents=[None, None]).jobs
    assert (job.job_attempt, job.earlier_seconds) == (3, 70.0)


OTHER_ID = "99999999-2222-3333-4444-555555555555"
LOST_HOST = {
    "jobId": OTHER_ID,
    "createdAt": DONE["createdAt"] - 100_000,
    "statusReason": "Host EC2 (instance i-0f1e2d3c4b5a69788) terminated.",
}


SECOND = 1000


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
        child = described("SUCCEEDED") | own | fields
        attempt = {name: child[name] for name in ("startedAt", "stoppedAt")}
        found.append(child | {"attempts": [attempt]})
    return [parent, *found]


FIRST = {"createdAt": DONE["createdAt"] + 5 * SECOND}
EARLY = {"startedAt": DONE["startedAt"] - 3 * SECOND}
LATE = {"stoppedAt": DONE["stoppedAt"] + 4 * SECOND}
DIED = {"status": "FAILED", "statusReason": "Essential container in task exited"}


def of_first_child():
    return json.dumps(json.loads(document()) | {"job_id": f"{JOB_ID}:0"})


def test_of_an_array_job_the_first_childs_document_log_and_times_count(collect):
    events = [
        event("RUNNABLE", "2026-11-20T00:58:40Z"),  # the parent's
        event("RUNNABLE", "2026-11-20T00:58:41Z", job_id=f"{JOB_ID}:0"),
        event("RUNNABLE", "2026-11-20T00:58:42Z", job_id=f"{JOB_ID}:1"),
    ]
    parent, *children = array_of(FIRST, EARLY, LATE)
    answers = [({"events": events}, ASKED)]
    (job,) = collect(parent, *children, document=of_first_child(), event_answers=answers).jobs
    assert (job.job_id, job.job_attempt) == (f"{JOB_ID}:0", 1)
    assert job.document_uri.endswith(f"/{JOB_ID}_0.1.json")
    assert job.log_stream == "g5.xlarge/default/0"
    assert job.created_at.timestamp() * SECOND == DONE["createdAt"], "as it was submitted"
    assert job.started_at.timestamp() * SECOND == DONE["startedAt"]
    assert moments(job) == ["00:58:41", None]
    assert job.failure is None


def test_an_array_job_is_charged_once_from_its_first_childs_start_to_its_lasts_end(collect):
    parent, *children = array_of(FIRST, EARLY, LATE)
    (job,) = collect(parent, *children, document=of_first_child()).jobs
    assert (job.stopped_at - job.started_at).total_seconds() == 100
    assert job_cost(job, PRICES).seconds == 107


def test_an_array_job_that_was_retried_is_charged_for_all_attempts(collect):
    """Of each child one of 40 s; then one of 103 s, within which two others ran."""
    lost = {
        "startedAt": DONE["startedAt"] - 90 * SECOND,
        "stoppedAt": DONE["startedAt"] - 50 * SECOND,
    }
    short = {"stoppedAt": DONE["stoppedAt"] - 30 * SECOND}
    late = {"startedAt": DONE["stoppedAt"] - 20 * SECOND}
    parent, *children = array_of(EARLY, short, late)
    for child in children:
        child["attempts"].insert(0, lost)
    second = json.loads(of_first_child()) | {"job_attempt": 2}
    text, earlier = json.dumps(second), [None]
    (job,) = collect(parent, *children, document=text, earlier_documents=earlier).jobs
    assert job.job_attempt == 2
    assert job.charged_seconds == 143


def test_a_failed_child_is_named_though_the_first_left_its_document(collect):
    container = {"logStreamName": "g5.xlarge/default/2", "exitCode": 139}
    parent, *children = array_of({}, {}, DIED | {"container": container})
    (job,) = collect(parent, *children, document=of_first_child(), logs=2).jobs
    assert "Of 3 children 1 failed:\n2: exit code 139; status reason: Essential" in job.failure
    assert "log stream g5.xlarge/default/2 of" in job.failure


def test_of_a_lost_array_job_the_time_of_its_instance_is_kept_once(collect):
    parent, *children = array_of(DIED, DIED, DIED)
    (lost,) = collect(parent, *children, document=None).lost
    assert (lost.job_id, lost.seconds) == (JOB_ID, 100.0)
    assert "Of 3 children 3 failed:\n0: no exit code" in lost.reason


def test_an_array_left_running_is_ended_by_its_parent_alone(collect):
    parent, *children = array_of({"status": "RUNNING"}, {"status": "RUNNABLE"}, {})
    parent["status"] = "PENDING"
    (lost,) = collect(parent, *children).lost
    assert collect.terminated == [(JOB_ID, LEFT_OVER)]
    assert "was still RUNNABLE" in lost.reason


def test_a_spot_array_that_an_on_demand_one_replaced_is_charged_too(collect):
    parent, *children = array_of({}, {})
    spot, *lost = (
        job | {"jobId": job["jobId"].replace(JOB_ID, OTHER_ID), "createdAt": 1}
        for job in array_of({}, DIED | {"statusReason": LOST_HOST["statusReason"]})
    )
    (job,) = collect(
        parent, *children, spot, *lost, document=of_first_child(), earlier_documents=[None]
    ).jobs
    assert job.replaced_job_id == OTHER_ID
    assert job.charged_seconds == 200


ON_2_NODES = PLAN.model_copy(update={"scaling": planned(node_counts=[2])[0].scaling})
MAIN_NODE = f"{JOB_ID}#0"


def of_nodes(status="SUCCEEDED", **fields):
    """A multi-node job, whose own fields tell little, and its main node with these fields."""
    name = full_name("batchmark-g5-xlarge-smoke-on-2-1", "run", 0)
    nodes = {"numNodes": 2, "mainNode": 0, "nodeRangeProperties": []}
    job = described(status, jobName=name, nodeProperties=nodes)
    del job["container"]
    attempt = {name: job[name] for name in ("startedAt", "stoppedAt")}
    own = {"jobId": MAIN_NODE, "nodeDetails": {"nodeIndex": 0, "isMainNode": True}}
    own["container"] = {"logStreamName": "nodes/default/0"}
    return [job, described(status, jobName=name) | own | {"attempts": [attempt]} | fields]


def of_main_node():
    return json.dumps(json.loads(document()) | {"job_id": MAIN_NODE})


def test_of_a_multi_node_job_the_main_nodes_document_log_and_times_count(collect):
    events = [event("RUNNABLE", "2026-11-20T00:58:40Z")]  # the job's
    answers = [({"events": events}, ASKED)]
    nodes = of_nodes()
    (job,) = collect(*nodes, document=of_main_node(), event_answers=answers, plan=ON_2_NODES).jobs
    assert (job.job_id, job.job_attempt) == (MAIN_NODE, 1)
    assert job.document_uri.endswith(f"/{JOB_ID}_0.1.json")
    assert job.log_stream == "nodes/default/0"
    assert moments(job) == ["00:58:40", None]
    assert job.failure is None


def test_a_multi_node_job_is_charged_for_all_its_nodes(collect):
    (job,) = collect(*of_nodes(), document=of_main_node(), plan=ON_2_NODES).jobs
    assert (job.stopped_at - job.started_at).total_seconds() == 100
    cost = job_cost(job, PRICES)
    assert (cost.nodes, cost.seconds) == (2, 200)
    assert cost.usd == pytest.approx(200 / 3600 * 1.006)


def test_a_lost_multi_node_job_is_charged_for_all_its_nodes_and_says_what_the_main_node_did(
    collect,
):
    container = {"logStreamName": "nodes/default/0", "exitCode": 3}
    nodes = of_nodes("FAILED", container=container)
    (lost,) = collect(*nodes, document=None, plan=ON_2_NODES).lost
    assert (lost.job_id, lost.seconds) == (JOB_ID, 200.0)
    assert "Its main node: exit code 3" in lost.reason
    assert "log stream nodes/default/0 of" in lost.reason


def test_a_multi_node_job_left_running_is_ended_as_a_whole(collect):
    (lost,) = collect(*of_nodes("RUNNING"), plan=ON_2_NODES).lost
    assert collect.terminated == [(JOB_ID, LEFT_OVER)]
    assert "was still RUNNING" in lost.reason


def test_one_that_never_started_has_no_main_node_yet(collect):
    job, _ = of_nodes("FAILED")
    job |= {"attempts": [], "statusReason": "it waited too long"}
    del job["startedAt"]
    (lost,) = collect(job, logs=0, reads_document=False, plan=ON_2_NODES).lost
    assert lost.seconds == 0
    assert "status reason: it waited too long" in lost.reason


def test_a_job_that_its_task_never_told_of_is_found_by_name(collect):
    older = described("FAILED", jobId=OTHER_ID, createdAt=DONE["createdAt"] - 1)
    foreign = described("RUNNING", jobId="foreign")
    foreign["jobName"] = full_name(LABEL, "another run", 0)
    collected = collect(DONE, older, foreign, document=document(), job_id=None)
    assert [job.job_id for job in collected.jobs] == [JOB_ID]
    assert collect.terminated == []


def test_without_any_job_of_its_name_none_was_submitted(collect):
    foreign = described("RUNNING", jobName="by hand", jobId="foreign")
    (lost,) = collect(foreign, job_id=None).lost
    assert lost.reason == "no job was submitted; see the log of its run_benchmark task"


RAN = {"startedAt": 1_795_222_800_000, "stoppedAt": 1_795_222_890_500}


def test_the_job_of_a_cleared_task_counts_for_the_cost_only(collect):
    cleared = described("FAILED", jobId=OTHER_ID, attempts=[RAN], createdAt=1_795_222_600_000)
    newer = described("SUCCEEDED", jobName=full_name(LABEL, "run", 1))
    collected = collect(newer, cleared, document=document())
    assert [job.job_id for job in collected.jobs] == [JOB_ID]
    assert collected.lost == ()
    (other,) = collected.superseded
    assert (other.job_id, other.seconds, other.reason) == (OTHER_ID, 90.5, SUPERSEDED)


def test_the_time_of_a_replaced_spot_job_is_that_of_its_lost_successor_too(collect):
    reclaimed = described("FAILED", attempts=[RAN]) | LOST_HOST
    collected = collect(described("FAILED", attempts=[RAN]), reclaimed, earlier_documents=[None])
    (lost,) = collected.lost
    assert (lost.job_id, lost.seconds) == (JOB_ID, 181.0)
    assert collected.superseded == ()


def test_the_on_demand_job_counts_where_its_task_told_of_the_spot_job_only(collect):
    spot = described("FAILED", attempts=[RAN]) | LOST_HOST
    (job,) = collect(
        DONE | {"jobQueue": "on-demand-queue"},
        spot,
        document=document(),
        earlier_documents=[None],
        job_id=OTHER_ID,
    ).jobs
    assert (job.job_id, job.replaced_job_id) == (JOB_ID, OTHER_ID)


def test_what_an_interrupted_attempt_measured_is_kept_though_the_job_is_lost(collect):
    spot = described("FAILED", attempts=[RAN]) | LOST_HOST
    left = json.loads(document()) | {"job_id": OTHER_ID, "status": "interrupted"}
    (lost,) = collect(
        described("FAILED", attempts=[RAN]), spot, earlier_documents=[json.dumps(left)]
    ).lost
    (attempt,) = lost.interrupted
    assert (attempt.job_id, attempt.job_attempt, attempt.measured_rows) == (OTHER_ID, 1, 1)


def test_a_job_that_still_runs_is_ended_and_lost(collect):
    running = described("RUNNING")
    double = described("RUNNABLE", jobId=OTHER_ID, jobQueue="on-demand-queue")
    (lost,) = collect(running, double).lost
    assert lost.reason.startswith(f"Batch job {JOB_ID} was still RUNNING, though no task waited")
    assert collect.terminated == [(JOB_ID, LEFT_OVER), (OTHER_ID, LEFT_OVER)]


@pytest.mark.parametrize(
    "fields",
    [
        {"jobName": full_name(LABEL, "run", 0) + "-debug"},
        {"jobName": full_name(LABEL, "run", 0), "tags": {}},
        {"jobName": full_name(LABEL, "run", 0), "tags": {"batchmark:installation": "another"}},
    ],
)
def test_a_copy_of_a_job_is_not_ended_and_does_not_count(collect, fields):
    copy = described("RUNNING", jobId=OTHER_ID, createdAt=DONE["createdAt"] + 1, **fields)
    collected = collect(DONE, copy, document=document(), job_id=None)
    assert collect.terminated == []
    assert [job.job_id for job in collected.jobs] == [JOB_ID]
    assert collected.superseded == ()


def refused(code):
    def terminate_job(*_):
        raise client_error(code)

    return terminate_job


def test_a_job_that_may_not_be_ended_costs_no_other_its_result(collect, monkeypatch, caplog):
    monkeypatch.setattr(collecting, "terminate_job", refused("AccessDeniedException"))
    double = described("RUNNABLE", jobId=OTHER_ID, createdAt=DONE["createdAt"] - 1)
    collected = collect(DONE, double, document=document())
    assert [job.job_id for job in collected.jobs] == [JOB_ID]
    assert f"Job {OTHER_ID} can't be ended: An error occurred (AccessDenied" in caplog.text


def test_a_lost_job_that_may_not_be_ended_says_so(collect, monkeypatch):
    monkeypatch.setattr(collecting, "terminate_job", refused("AccessDeniedException"))
    (lost,) = collect(described("RUNNING")).lost
    assert "though no task waited for it any more; it can't be ended (An error" in lost.reason


def test_a_batch_that_does_not_answer_is_asked_again_to_end_a_job(collect, monkeypatch):
    monkeypatch.setattr(collecting, "terminate_job", refused("TooManyRequestsException"))
    with pytest.raises(ClientError, match="TooManyRequests"):
        collect(described("RUNNING"))


def test_what_interrupted_attempts_measured_is_kept_and_listed(collect):
    """A Spot job of two attempts, of which the first wrote a document, then On-Demand."""
    attempts = [
        {"startedAt": 1_795_222_610_000, "stoppedAt": 1_795_222_640_000},
        {"startedAt": 1_795_222_650_000, "stoppedAt": 1_795_222_655_000},
    ]
    spot = described("FAILED", attempts=attempts) | LOST_HOST
    left = json.loads(document()) | {"job_id": OTHER_ID, "status": "interrupted"}
    (job,) = collect(
        DONE | {"jobQueue": "on-demand-queue"},
        spot,
        document=document(),
        earlier_documents=[json.dumps(left), None],
    ).jobs
    assert (job.job_id, job.replaced_job_id) == (JOB_ID, OTHER_ID)
    assert job.earlier_seconds == 35.0
    (attempt,) = job.interrupted
    assert (attempt.job_id, attempt.job_attempt, attempt.measured_rows) == (OTHER_ID, 1, 1)
    assert attempt.document_uri == f"{PLAN.result_prefix}{OTHER_ID}.1.json"


REFUSALS = [
    ("SlowDown", 503),
    ("ExpiredToken", 400),
    ("RequestTimeTooSkewed", 403),
    ("AccessDenied", 403),
    ("KMS.DisabledException", 400),
]


@pytest.mark.parametrize(("code", "status"), REFUSALS)
def test_an_s3_that_refuses_for_now_is_no_lost_job(collect, code, status):
    """The task fails and is tried again; the error names what it was about."""
    with pytest.raises(ClientError, match=code) as raised:
        collect(DONE, document=(code, status))
    assert raised.value.__notes__ == [f"It was to read {PLAN.result_prefix}{JOB_ID}.1.json."]


@pytest.mark.parametrize(("code", "status"), REFUSALS)
def test_nor_is_what_an_interrupted_attempt_measured(collect, code, status):
    spot = described("FAILED", attempts=[RAN]) | LOST_HOST
    with pytest.raises(ClientError, match=code):
        collect(
            DONE | {"jobQueue": "on-demand-queue"},
            spot,
            document=document(),
            earlier_documents=[(code, status)],
            event_answers=(),
        )


def test_the_compute_environment_tells_how_the_instance_was_bought(collect):
    spot = document(compute_environment="g5-spot")
    (job,) = collect(DONE, document=spot).jobs
    assert job.purchase_option == "spot"


def test_a_target_that_is_gone_leaves_the_purchase_unknown(collect):
    plan = PLAN.model_copy(update={"target": "g6.xlarge"})
    gone = json.loads(document(compute_environment="g5-spot")) | {"target": "g6.xlarge"}
    (job,) = collect(DONE, document=json.dumps(gone), plan=plan).jobs
    assert job.purchase_option is None


MIXED = [build_row([0.1] * 8), build_row([0.1] * 8, dtype="tf32")]


def test_a_suites_own_dtypes_may_differ_by_row(collect):
    plan = PLAN.model_copy(update={"dtype": "suite"})
    (job,) = collect(DONE, document=document(*MIXED), plan=plan).jobs
    assert [row.dtype for row in job.document.measurements] == ["float32", "tf32"]


def test_a_dtype_that_was_asked_for_is_demanded_of_every_row(collect):
    (lost,) = collect(DONE, document=document(*MIXED), event_answers=()).lost
    assert lost.reason.endswith("has a row of matmul in tf32, expected float32 only")


def test_a_document_of_another_run_is_refused(collect):
    foreign = json.loads(document()) | {"run_id": "other"}
    (lost,) = collect(DONE, document=json.dumps(foreign), event_answers=()).lost
    assert lost.reason.endswith("has run_id 'other', expected 'run'")


def test_a_document_of_a_simulated_gpu_is_refused(collect):
    (lost,) = collect(
        DONE, document=document(gpu_model="simulated Tesla T4"), event_answers=()
    ).lost
    assert lost.reason.endswith("a simulated Tesla T4, whose figures are no GPU's")
