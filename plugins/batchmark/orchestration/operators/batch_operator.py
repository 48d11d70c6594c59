"""The operator that runs one benchmark job on AWS Batch."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from functools import cached_property
from typing import Any

from airflow.providers.amazon.aws.operators.batch import BatchOperator
from airflow.providers.amazon.aws.utils import trim_none_values
from airflow.sdk import Context
from airflow.sdk.exceptions import (
    AirflowException,
    AirflowFailException,
    TaskDeferralError,
    TaskDeferralTimeout,
)
from botocore.exceptions import BotoCoreError, ClientError

from batchmark.aws.batch_jobs import (
    KILLED,
    describe_jobs,
    is_live,
    is_passing,
    list_jobs,
    submit_job,
    terminate_job,
    with_installation_tag,
)
from batchmark.aws.job_description import JobDescription
from batchmark.aws.job_parts import child_id, main_node_id
from batchmark.core.names import (
    DAG_TAG,
    GENERATION_TAG,
    INSTALLATION_TAG,
    full_name,
    generation_of,
    is_of_task,
    names_of_task,
)
from batchmark.core.own_jobs import OwnJobPlan
from batchmark.orchestration.aws_clients import AwsAccess, AwsClients
from batchmark.orchestration.links import JobLogLink, JobResultLink, job_log_url, result_url
from batchmark.orchestration.operators.batch_trigger import (
    ENDING_SECONDS,
    UNREADABLE,
    BenchmarkJobTrigger,
    goes_on_demand,
    not_withdrawn,
)
from batchmark.orchestration.operators.job_progress import JobOrder
from batchmark.orchestration.xcom import (
    FAILURE_XCOM,
    JOB_ID_XCOM,
    JOB_IDS_XCOM,
    OWN_ERROR_XCOM,
    TIMING_XCOM,
)
from batchmark.runs.job_outcome import JobOutcome, outcome
from batchmark.runs.own_jobs.wrapper import container_overrides
from batchmark.runs.plans.options import with_token
from batchmark.runs.result_documents import ExpectedDocument

READ_AGAIN_AFTER_SECONDS = (2.0, 5.0, 10.0, 20.0, 20.0)  # 57 s; then Airflow retries


class BenchmarkJobOperator(BatchOperator):
    """A deferrable BatchOperator that submits its job only once and explains any failure.

    Before submitting, it looks for its job by name (docs/decisions/0010). A retry finds the
    previous try's job and waits for it, or reports how it ended. A cleared task terminates any jobs
    that it left running and submits a new one. Retries make up for lost workers and triggerers,
    but never rerun a failed job: if tries remain, the task goes through `up_for_retry`, and the
    next try fails at once.

    XComs: `job_id` and `job_ids` after submission (the latter includes a Spot job that an On-Demand
    job replaced), `timing` at the end, and `failure` after a failure.

    Args:
        job_name: must be unique among a run's tasks; a digest and the generation are appended.
        runnable_seconds, starting_seconds, longest_seconds, after, ahead, first, alone: see
            JobOrder.
        on_demand_queue: queue for a second job, which is submitted if the last attempt lost its
        host; None for no second job.
        queues_of_same_quota, document, events_log_group: see JobOrder.
        environment: variables for a user's own job, in addition to its job definition's.
        in_turn: whether the trigger, instead of the task, submits the job when its turn comes.
        turn: position among the jobs that take turns, from 1.
        execution_timeout: limit for the task, including its deferral, after which the job is
        terminated.
    """

    operator_extra_links = (JobLogLink(), JobResultLink())  # type: ignore[assignment]
    # A command of its owner's may have braces, which are no template of ours.
    template_fields: Sequence[str] = ()

    def __init__(
        self,
        *,
        runnable_seconds: float | None = None,
        starting_seconds: float | None = None,
        longest_seconds: float | None = None,
        on_demand_queue: str | None = None,
        queues_of_same_quota: Sequence[str] = (),
        document: dict[str, Any] | None = None,
        environment: Mapping[str, str] | None = None,
        events_log_group: str | None = None,
        in_turn: bool = False,
        after: int | None = None,
        ahead: Sequence[int] = (),
        first: int | None = None,
        alone: bool = True,
        turn: int = 1,
        **kwargs: Any,
    ) -> None:
        super().__init__(deferrable=True, **kwargs)
        self.order = JobOrder(
            after=after,
            ahead=list(ahead),
            first=first,
            alone=alone,
            runnable_seconds=runnable_seconds,
            starting_seconds=starting_seconds,
            longest_seconds=longest_seconds,
            document=document,
            queues_of_same_quota=list(queues_of_same_quota),
            events_log_group=events_log_group,
        )
        self.on_demand_queue = on_demand_queue
        self.environment = dict(environment or {})
        self.in_turn = in_turn
        self.turn = turn
        self.job_log_url = self.job_result_url = ""
        self._is_killed = False

    @cached_property
    def clients(self) -> AwsClients:
        return AwsClients.shared(AwsAccess.of(self))

    def execute(self, context: Context) -> str | None:
        try:
            return self._find_or_submit(context)
        except AirflowFailException:
            raise
        except Exception:
            self._end_jobs_on_last_try(context)
            raise

    def execute_complete(self, context: Context, event: Any = None) -> str:  # noqa: ARG002
        """Finish a task that its trigger has already ended; only `dag.test()` calls this."""
        return self._conclude(context, self._described(self._listed(context)[0]["jobId"]))

    def resume_execution(
        self, next_method: str, next_kwargs: dict[str, Any] | None, context: Context
    ) -> Any:
        """Handle a task that its trigger couldn't end.

        Either no triggerer ended it before the deferral timed out, or the trigger raised an error.
        """
        try:
            return super().resume_execution(next_method, next_kwargs, context)
        except TaskDeferralTimeout as error:
            listed = self._listed(context)
            if listed and not any(map(is_live, listed)):
                return self._conclude(context, self._described(listed[0]["jobId"]))
            reason = "The task's deferral timed out before any triggerer ended the task"
            self._end_jobs(context, listed, reason)
            raise AirflowFailException(
                "No triggerer ended this task in time, so its job was terminated. Check that a "
                "triggerer is running."
            ) from error
        except TaskDeferralError:
            self._end_jobs_on_last_try(context)
            raise

    def on_kill(self) -> None:
        """Terminate the job when a user marks or clears the task, or when the worker shuts down."""
        self._is_killed = True
        if self.job_id:
            terminate_job(self.clients("batch"), self.job_id, KILLED)

    def _find_or_submit(self, context: Context) -> str | None:
        request = self._request(context)
        listed = self._listed(context)
        current = not_withdrawn(listed, request)
        other = [job for job in listed if job["jobName"] != request["jobName"]]
        self._end_jobs(
            context, (*current[1:], *other), "Another job of its Airflow task took its place"
        )
        on_demand = self._on_demand(request)
        if self.in_turn and (not current or self._may_step_back(current[0], on_demand)):
            self.log.info(
                "The trigger will submit the job to %s when its turn comes", self.job_queue
            )
            self._defer(on_demand, [], request)
            return None
        if current:
            self.job_id = str(current[0]["jobId"])
            self.log.info(
                "Found this task's existing job %s (%s)", self.job_id, current[0]["status"]
            )
        else:
            self.job_id = self._submit(context, request)
        earlier = [str(job["jobId"]) for job in reversed(current[1:])]
        context["ti"].xcom_push(key=JOB_ID_XCOM, value=self.job_id)
        context["ti"].xcom_push(key=JOB_IDS_XCOM, value=[*earlier, self.job_id])
        self._link_to(self.job_id)
        if current and not is_live(current[0]):
            job = self._described(self.job_id)
            if not goes_on_demand(job, on_demand):
                return self._conclude(context, job)
        self._defer(on_demand, earlier)
        return None

    def _submit(self, context: Context, request: dict[str, Any]) -> str:
        def find() -> str | None:
            found = not_withdrawn(self._listed(context), request)
            return found[0]["jobId"] if found else None

        try:
            job_id = submit_job(self.clients("batch", attempts=1), request, find)
        except ClientError as error:
            if is_passing(error):
                raise
            raise AirflowFailException(
                f"Batch rejected job {request['jobName']}: {error}"
            ) from error
        self.log.info("Submitted job %s as %s", job_id, request["jobName"])
        if self._is_killed:
            terminate_job(self.clients("batch"), job_id, KILLED)
            raise AirflowException(f"{KILLED} while it was submitting job {job_id}")
        return job_id

    def _may_step_back(self, listed: dict[str, Any], on_demand: dict[str, Any] | None) -> bool:
        """Return whether the job can be withdrawn in favour of others.

        It must be live, must require an empty queue, and must not be in the On-Demand queue.
        """
        if not self.order.alone or not is_live(listed):
            return False
        queue = self._described(listed["jobId"])["jobQueue"]
        return on_demand is None or queue != on_demand["jobQueue"]

    def _defer(
        self,
        on_demand: dict[str, Any] | None,
        earlier_job_ids: Sequence[str],
        request: dict[str, Any] | None = None,
    ) -> None:
        """Defer until the job ends.

        With `request`, the trigger finds the job or submits it when its turn comes, and the timeout
        allows for one extra turn, because other runs' jobs might come first.
        """
        turns = self.turn + 1 if request else 1
        timeout = self.execution_timeout.total_seconds() if self.execution_timeout else None
        longest = (self.order.longest_seconds or 0) * (2 if on_demand else 1)
        bounds = [seconds for seconds in (timeout, longest) if seconds]
        one_turn = min(bounds) + ENDING_SECONDS if bounds else None
        now = time.time()
        order = replace(
            self.order,
            request=request,
            on_demand=on_demand,
            earlier_job_ids=list(earlier_job_ids),
            deadline=now + turns * timeout if timeout else None,
            latest_turn=now + (turns - 1) * one_turn if request and one_turn else None,
        )
        self.defer(
            # The trigger ends the task in time; this is in case no triggerer runs.
            timeout=timedelta(seconds=turns * one_turn) if one_turn else None,
            trigger=BenchmarkJobTrigger(
                job_id=self.job_id,
                **vars(order),
                waiter_delay=self.poll_interval,
                aws_conn_id=self.aws_conn_id,
                region_name=self.region_name,
                verify=self.verify,
                botocore_config=self.botocore_config,
            ),
            method_name="execute_complete",
        )

    def _conclude(self, context: Context, job: JobDescription) -> str:
        """Report how a job ended, raising an error that prevents further retries if it failed."""
        end = self._outcome(job)
        self._link_to(job["jobId"], job)
        context["ti"].xcom_push(key=TIMING_XCOM, value=end.timing)
        if end.failure is None:
            return str(job["jobId"])
        context["ti"].xcom_push(key=FAILURE_XCOM, value=end.failure)
        if end.own_error:
            context["ti"].xcom_push(key=OWN_ERROR_XCOM, value=end.own_error)
        raise AirflowFailException(end.failure)

    def _link_to(self, job_id: str, job: JobDescription | None = None) -> None:
        self.job_log_url = job_log_url(self.clients("batch"), job_id, job)
        if self.order.document:
            writer = job_id
            if self.array_properties:
                writer = child_id(job_id, 0)
            elif self.node_overrides:
                writer = main_node_id(job_id)
            self.job_result_url = result_url(self.order.document["prefix"], writer)

    def _outcome(self, job: JobDescription) -> JobOutcome:
        """Judge a job; if S3 can't be read, retry for a while, then let Airflow retry the task."""
        expected = ExpectedDocument(**self.order.document) if self.order.document else None
        for seconds in READ_AGAIN_AFTER_SECONDS:
            try:
                return outcome(self.clients, job, expected)
            except (BotoCoreError, ClientError) as error:
                self.log.warning("%s Retrying in %.0f s: %s", UNREADABLE, seconds, error)
            time.sleep(seconds)
        return outcome(self.clients, job, expected)

    def _request(self, context: Context) -> dict[str, Any]:
        """Build the arguments for SubmitJob."""
        number = generation(context)
        timeout = self.submit_job_timeout
        request: dict[str, Any] = trim_none_values(
            {
                "jobName": full_name(self.job_name, context["run_id"], number),
                "jobQueue": self.job_queue,
                "jobDefinition": self.job_definition,
                "arrayProperties": self.array_properties,
                "parameters": self.parameters,
                "tags": self.tags | {GENERATION_TAG: str(number), DAG_TAG: context["ti"].dag_id},
                "containerOverrides": self._container_overrides(),
                "ecsPropertiesOverride": self.ecs_properties_override,
                "eksPropertiesOverride": self.eks_properties_override,
                "nodeOverrides": with_token(self.node_overrides) if self.node_overrides else None,
                "retryStrategy": self.retry_strategy,
                "shareIdentifier": self.share_identifier,
                "schedulingPriorityOverride": self.scheduling_priority_override,
                "timeout": {"attemptDurationSeconds": timeout} if timeout else None,
            }
        )
        return request

    def _container_overrides(self) -> dict[str, Any] | None:
        """Return the container overrides; for users' jobs, build them here to keep plans small."""
        if own_job := (self.order.document or {}).get("own_job"):
            # What an earlier release planned has them in the document.
            variables = {"environment": self.environment} if self.environment else {}
            return container_overrides(OwnJobPlan.model_validate(own_job | variables))
        overrides: dict[str, Any] | None = self.container_overrides
        return overrides

    def _on_demand(self, request: dict[str, Any]) -> dict[str, Any] | None:
        if self.on_demand_queue in (None, self.job_queue):
            return None
        return request | {"jobQueue": self.on_demand_queue}

    def _listed(self, context: Context) -> list[dict[str, Any]]:
        """List this task's jobs in this run, newest first, across all generations."""
        prefix, batch = names_of_task(self.job_name, context["run_id"]), self.clients("batch")
        listed = list_jobs(batch, [self.job_queue, self.on_demand_queue], prefix)
        of_task = [job for job in listed if is_of_task(job["jobName"], prefix)]
        return with_installation_tag(batch, of_task, self.tags.get(INSTALLATION_TAG))

    def _described(self, job_id: str) -> JobDescription:
        return describe_jobs(self.clients("batch"), [job_id])[job_id]

    def _end_jobs(self, context: Context, jobs: Iterable[dict[str, Any]], reason: str) -> None:
        """Terminate those of the given jobs that are live and not from a later generation."""
        for job in jobs:
            if is_live(job) and generation_of(job["jobName"]) <= generation(context):
                terminate_job(self.clients("batch"), job["jobId"], reason)

    def _end_jobs_on_last_try(self, context: Context) -> None:
        ti = context["ti"]
        if ti.try_number <= ti.max_tries:
            return  # the next try takes the job over
        try:
            reason = "Its Airflow task failed on its last try"
            self._end_jobs(context, self._listed(context), reason)
        except (BotoCoreError, ClientError) as error:
            self.log.warning(
                "Some jobs may keep running until collect_results terminates them: %s", error
            )


def generation(context: Context) -> int:
    """Return a number that increases when Airflow clears a task, but not when it retries one."""
    return context["ti"].max_tries - (context["task"].retries or 0)
