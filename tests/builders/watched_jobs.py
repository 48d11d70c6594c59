"""Own jobs that have ended, as Batch, their logs and their hosts tell of them."""

from batchmark.aws.job_hosts import JobHost
from batchmark.aws.job_log import FACT_MARK, MarkedLine
from batchmark.core.own_jobs import OwnJobPlan
from batchmark.core.run import PlannedJob
from batchmark.core.suites import OWN_DTYPES
from batchmark.runs.own_jobs.lines import read_lines
from batchmark.runs.result_documents import ExpectedDocument

RUN_ID, BUCKET, JOB_ID = "run", "results", "11111111-2222-3333-4444-555555555555"
CREATED, STARTED, STOPPED = 1_795_222_700_000, 1_795_222_800_000, 1_795_222_890_500
CLUSTER = "arn:aws:ecs:us-east-1:123456789012:cluster/lab_Batch_1"
HOST = "arn:aws:ecs:us-east-1:123456789012:container-instance/lab_Batch_1/0f"
TASK = "arn:aws:ecs:us-east-1:123456789012:task/lab_Batch_1/1e"
DIGEST = "sha256:" + "ab" * 32
SHA256 = "cd" * 32
KEY = "0f8fad5b-d9cb-469f-a165-70867728950e"  # of a wrapper
GPU = "gpu NVIDIA A10G, 580.95.05, 23028"
BEGIN = (
    "cpu AMD EPYC 7R32",
    "threads 4",
    "memory_kib 16000000",
    "kernel 6.12.40",
    "begin 1 5000.00",
)
END = ("end 0 5080.25", "busy 300 400", "peak_memory 2000000000", "over")
# Of each kind that changes what is known of a job.
FALSE_FACTS = (
    *("begin 1 1", "end 0 1", "busy 1 1", "peak_memory 1", "gpu_busy 9 9 9 9", "check 0", "over"),
    *(f"sha256 {SHA256}", "sha256 missing", "metrics_left_out 7", "metrics_outside /a"),
)


def awslogs(**options):
    """How a container logs, as its job definition says it."""
    return {"logConfiguration": {"logDriver": "awslogs", "options": options}}


BLOCKING = awslogs(mode="blocking")


def plan(**changes):
    fields = {"name": "thumbnails", "job_definition": "arn:definition:3"}
    return OwnJobPlan(**fields | {"command": ("python", "convert.py")} | changes)


def planned(own_job=None, *, device="cuda", repeat=1):
    return PlannedJob(
        target="g5.xlarge",
        device=device,
        instance_type="g5.xlarge",
        suite="job-thumbnails",
        repeat=repeat,
        dtype=OWN_DTYPES,
        result_prefix=f"s3://{BUCKET}/raw/run/g5.xlarge/job-thumbnails/{repeat}/",
        own_job=own_job or plan(),
    )


def expected(own_job=None, **changes):
    return ExpectedDocument.of(RUN_ID, planned(own_job, **changes))


def described(status="SUCCEEDED", *, code=0, attempt=None, earlier=(), container=None, **fields):
    """DescribeJobs' answer; `attempt` changes the last of its attempts."""
    last = {"startedAt": STARTED, "stoppedAt": STOPPED} | (attempt or {})
    where = {"containerInstanceArn": HOST, "taskArn": TASK, "logStreamName": "own/default/1"}
    image = {"image": "docker.io/lab/thumbnails:3.1"} | BLOCKING
    needs = [{"type": kind, "value": value} for kind, value in (("VCPU", "4"), ("MEMORY", "8192"))]
    ended = {} if code is None else {"exitCode": code}
    return {
        "jobId": JOB_ID,
        "jobArn": f"arn:aws:batch:us-east-1:123456789012:job/{JOB_ID}",
        "jobName": "batchmark-g5-xlarge-job-thumbnails-1",
        "jobQueue": "queue",
        "status": status,
        "createdAt": CREATED,
        **last,
        "attempts": [*earlier, last],
        "container": where | image | ended | {"resourceRequirements": needs} | (container or {}),
    } | fields


def marked(*texts, at=STARTED):
    """Lines of a log, a millisecond apart."""
    return [MarkedLine(at + number, text) for number, text in enumerate(texts)]


def facts(*texts):
    return [FACT_MARK + text for text in texts]


def told(*texts, gpus=()):
    """What a wrapped job told that came to its end, with these lines in between."""
    return read_lines(marked(*facts(*gpus, *BEGIN), *texts, *facts(*END)))


def metric(name="speed", value="12.5", unit="images/s", better="true", mark="BATCHMARK_METRIC "):
    return (
        f'{mark}{{"metric": "{name}", "value": {value}, "unit": "{unit}", '
        f'"higher_is_better": {better}}}'
    )


def host(**changes):
    known = {
        "container_instance": HOST,
        "instance_id": "i-0f",
        "instance_type": "g5.2xlarge",
        "availability_zone": "us-east-1b",
        "registered_at": "2026-11-21T00:50:00Z",
        "compute_environment": "lab",
        "purchase_option": "spot",
        "image_digest": DIGEST,
    }
    return JobHost(**known | changes)


WHOLE = [*facts(*BEGIN), metric(), *facts(*END)]  # the log of a job that came to its end
