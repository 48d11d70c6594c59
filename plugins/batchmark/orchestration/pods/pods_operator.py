"""Runs replicas that share a node's GPUs as pods of one Kubernetes job."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from functools import cached_property, partial
from typing import Any

from airflow.providers.cncf.kubernetes.hooks.kubernetes import KubernetesHook
from airflow.providers.cncf.kubernetes.operators.job import KubernetesJobOperator
from airflow.sdk import Context
from kubernetes import client as kubernetes
from kubernetes.client.exceptions import ApiException

from batchmark.aws.result_bucket import RunStore
from batchmark.core.errors import ClusterError
from batchmark.core.names import full_name
from batchmark.core.run import PlannedJob
from batchmark.orchestration.pods.cluster_api import ClusterApi, kubeconfig, kubernetes_hook
from batchmark.orchestration.pods.pods_watch import PodsWatch
from batchmark.orchestration.settings import load_cluster, load_config
from batchmark.orchestration.telling import fail_if_refused
from batchmark.orchestration.xcom import PODS_XCOM
from batchmark.runs.plans.pod_plan import job_manifest
from batchmark.runs.pod_collecting import EndedPods


class PodsOperator(KubernetesJobOperator):
    """Enables GPU sharing, runs the job, and removes all its pods.

    Args:
        planned: the job, a PlannedJob as JSON.
        begins_exclusive: whether the job starts without GPU sharing. Sharing is then enabled once
        the log has reported that pods are waiting for a GPU.
        pending_seconds, starting_seconds: see PodsWatch.
    """

    template_fields: Sequence[str] = ()

    def __init__(
        self,
        *,
        planned: dict[str, Any],
        begins_exclusive: bool = False,
        pending_seconds: float = 180,
        starting_seconds: float = 900,
        **arguments: Any,
    ) -> None:
        super().__init__(name="pods", get_logs=False, do_xcom_push=False, **arguments)
        self.planned = PlannedJob.model_validate(planned)
        self.begins_exclusive = begins_exclusive
        self.limits = {"pending_seconds": pending_seconds, "starting_seconds": starting_seconds}

    @cached_property
    def hook(self) -> KubernetesHook:
        return kubernetes_hook(str(self.config_file))

    def execute(self, context: Context) -> None:
        """Run the job to completion.

        Raises:
            AirflowFailException: the job failed, or a pod could not start.
        """
        self._cluster = load_cluster()
        with kubeconfig(self._cluster) as self.config_file:
            api = ClusterApi(self._cluster, self.hook.api_client)
            with fail_if_refused(context):
                api.remove_jobs()  # what a lost worker has left
                api.offer_gpus(shared=not self.begins_exclusive)
                try:
                    super().execute(context)
                    self._watch(context, api)
                finally:
                    api.remove_jobs()

    def build_job_request_obj(self, context: Context | None = None) -> kubernetes.V1Job:
        """Return the Kubernetes job, built from the planned job's own manifest."""
        run_id, number = context["run_id"], context["ti"].try_number  # type: ignore[index]
        name = full_name(self.planned.name, run_id, number).replace("_", "-")
        manifest = job_manifest(self._cluster, run_id, self.planned, name=name)
        # As the provider does with a template file.
        return self.hook.api_client._ApiClient__deserialize_model(manifest, kubernetes.V1Job)

    def create_job(self, job_request_obj: kubernetes.V1Job) -> kubernetes.V1Job:
        try:
            return super().create_job(job_request_obj)
        except ApiException as error:
            raise ClusterError(
                f"cluster {self._cluster.cluster} rejected the job: {error.status} {error.body}"
            ) from error

    def _watch(self, context: Context, api: ClusterApi) -> None:
        """Watch the job, and tell later tasks how it ended.

        Raises:
            ClusterError: the job failed, or a pod could not start.
        """
        assert self.job is not None  # noqa: S101
        name = self.job.metadata.name
        share = partial(api.offer_gpus, shared=True) if self.begins_exclusive else None
        watch = PodsWatch(api, name, share=share, **self.limits)
        created_at = datetime.now(UTC)
        try:
            failure = watch.run()
        except Exception as error:
            self._report(context, watch, created_at, str(error))
            raise
        self._report(context, watch, created_at, failure)
        if failure:
            raise ClusterError(failure)

    def _report(
        self, context: Context, watch: PodsWatch, created_at: datetime, failure: str | None
    ) -> None:
        store = RunStore.of(load_config(), context["run_id"])
        log = f"logs/{self.planned.target}/{self.planned.name}.log"
        ended = EndedPods(
            job_name=watch.job_name,
            created_at=created_at,
            started_at=watch.started_at(),
            stopped_at=datetime.now(UTC),
            log_key=store.write(log, watch.log() or "\n", "text/plain"),
            node=watch.node(),
            failure=failure,
        )
        context["ti"].xcom_push(key=PODS_XCOM, value=ended.model_dump(mode="json"))
