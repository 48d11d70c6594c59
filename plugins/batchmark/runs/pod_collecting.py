"""Collects the results of Kubernetes jobs: documents and pod run times."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pydantic import AwareDatetime, Field

from batchmark.aws.result_bucket import RunStore
from batchmark.core.errors import CollectError
from batchmark.core.record import Record
from batchmark.core.run import CollectedJob, CollectedRun, LostJob, PlannedJob
from batchmark.runs.collected_runs import collected_digests
from batchmark.runs.result_documents import ExpectedDocument, key_of

ATTEMPT = 1  # a job whose pods fail is not tried again by Kubernetes


class EndedPods(Record):
    """A Kubernetes job that ended on its own or was terminated."""

    job_name: str
    created_at: AwareDatetime
    started_at: AwareDatetime | None = Field(
        description="start of its first pod; null if none started"
    )
    stopped_at: AwareDatetime
    log_key: str | None = Field(description="S3 key of its first replica's log")
    node: str | None = Field(description="node that its pods ran on")
    failure: str | None = None


def collect_pods(
    store: RunStore,
    *,
    run_id: str,
    planned: Sequence[PlannedJob],
    ended: Sequence[EndedPods | None],
) -> CollectedRun:
    """Pair each planned job with its result, or with the reason why it has none.

    `ended` is in the order of `planned`, with None for a job whose task reported nothing.
    """
    digests = collected_digests(store)
    results = [
        _result(store, run_id, plan, pods, digests)
        for plan, pods in zip(planned, ended, strict=True)
    ]
    return CollectedRun(
        run_id=run_id,
        jobs=tuple(result for result in results if isinstance(result, CollectedJob)),
        lost=tuple(result for result in results if isinstance(result, LostJob)),
    )


def _result(
    store: RunStore,
    run_id: str,
    plan: PlannedJob,
    pods: EndedPods | None,
    digests: Mapping[str, str],
) -> CollectedJob | LostJob:
    if pods is None:
        return _lost(store, plan, None, "its job did not end; see the log of its run_pods task")
    if pods.started_at is None or pods.log_key is None:
        return _lost(store, plan, pods, pods.failure or "none of its pods started")
    expected = ExpectedDocument.of(run_id, plan)
    try:
        raw = expected.read_raw(store, pods.job_name, ATTEMPT, digests.get(pods.job_name))
    except CollectError as error:
        lost = _lost(store, plan, pods, "\n".join(filter(None, [pods.failure, str(error)])))
        return lost.model_copy(update={"document_sha256": digests.get(pods.job_name)})
    uri = expected.uri(pods.job_name, ATTEMPT)
    return CollectedJob(
        planned=plan,
        job_id=pods.job_name,
        job_attempt=ATTEMPT,
        # The pods and their logs are gone; the kept copies are in the bucket.
        log_group=store.bucket,
        log_stream=pods.log_key,
        log_url=store.object_url(pods.log_key),
        document_uri=uri,
        document_url=store.object_url(key_of(uri)),
        document_sha256=raw.sha256,
        created_at=pods.created_at,
        started_at=pods.started_at,
        stopped_at=pods.stopped_at,
        document=raw.document,
        purchase_option="on_demand",
        host=pods.node,
        failure=pods.failure,
    )


def _lost(store: RunStore, plan: PlannedJob, pods: EndedPods | None, reason: str) -> LostJob:
    began = pods.started_at or pods.stopped_at if pods else None
    return LostJob(
        planned=plan,
        job_id=pods.job_name if pods else None,
        reason=reason,
        instance_type=plan.instance_type if store.is_aws() else None,
        seconds=(pods.stopped_at - began).total_seconds() if pods and began else None,
    )
