"""What pods left is collected as what Batch's jobs left."""

from batchmark.aws.result_bucket import RunStore
from batchmark.runs.collected_runs import store_run
from batchmark.runs.pod_collecting import EndedPods, collect_pods
from batchmark.runs.result_documents import key_of
from tests.builders.runs import START, build_job, build_row, build_run, put_documents, with_digests
from tests.stand_ins.bucket import MemoryBucket

RUN = with_digests(build_run(build_job("g5.xlarge", [build_row((0.1,) * 8)], job_id="pods-1")))
(JOB,) = RUN.jobs
PODS = EndedPods(
    job_name="pods-1",
    created_at=START,
    started_at=START,
    stopped_at=START,
    log_key="runs/run/logs/1.log",
    node="node",
)


def test_what_was_collected_once_is_not_taken_with_another_content():
    bucket = MemoryBucket("batchmark-results", "us-east-1")
    store = RunStore(bucket, bucket.name, RUN.run_id)
    put_documents(store, RUN)

    def collected():
        run = collect_pods(store, run_id=RUN.run_id, planned=[JOB.planned], ended=[PODS])
        store_run(store, run)
        return run

    assert collected().jobs[0].document_sha256 == JOB.document_sha256
    bucket.objects[key_of(JOB.document_uri)] += b" "
    for _ in range(2):
        (lost,) = collected().lost
        assert "pods-1.1.json was replaced: its SHA-256 is " in lost.reason
        assert lost.document_sha256 == JOB.document_sha256
