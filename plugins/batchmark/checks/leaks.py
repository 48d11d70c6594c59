"""Finds billed resources that no Airflow run needs, and ends them where allowed.

Jobs, instances and file systems are ended only if they have the installation's tag, and only after
their grace period.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from batchmark.aws.batch_jobs import describe_jobs, is_live, list_jobs, terminate_job
from batchmark.aws.batch_targets import NO_ANSWER, published_queues, why_unread
from batchmark.aws.boto_clients import Clients, all_pages
from batchmark.aws.existing_jobs import container_instances
from batchmark.aws.job_description import CHILDREN, ON_AN_INSTANCE, JobDescription, batch_time
from batchmark.aws.job_parts import child_ids
from batchmark.checks.file_system_leaks import end_file_system, end_parameter, file_system_resources
from batchmark.checks.leak_judge import AskRun, Judge, unknown_run
from batchmark.checks.leak_records import GuardReport, LeakAges, LeakKind, Resource, RunName
from batchmark.checks.node_leaks import cluster_resources, end_node
from batchmark.core.clusters.cluster import Cluster
from batchmark.core.clusters.multi_node import MultiNode
from batchmark.core.config import Config
from batchmark.core.names import DAG_TAG, INSTALLATION_TAG, RUN_ID_TAG, RUN_TAG, slug, url_safe
from batchmark_job.result.values import NO_RUN

# Longer than any job waits and runs. Batch forgets finished jobs after 7 days.
LOOK_BACK = timedelta(days=30)
REASON = "Terminated by Batchmark's leak guard: its Airflow run is over"

Jobs = Mapping[str, list[JobDescription]]
Ending = Callable[[Clients, str], str]  # ends a resource by its id, and says what it did


def find_leaks(
    config: Config,
    client: Clients,
    ask_run: AskRun,
    *,
    limits: LeakAges,
    now: datetime,
    cluster: Cluster | None = None,
    nodes: MultiNode | None = None,
    queues: Collection[str] = (),
) -> GuardReport:
    """List and judge everything running for this installation, including any EKS cluster.

    With the multi-node stack, `config` must include its target. `queues` belong to others, so only
    their jobs with the installation's tag are considered.

    Raises:
        ClientError, BotoCoreError: Batch can't list the jobs. Failures to list instances or file
        systems go to the report's `unread` instead.
    """
    judge = Judge(client, ask_run, limits, now)
    jobs = _jobs(config, client("batch"), now)
    live = [job for of_queue in jobs.values() for job in of_queue if is_live(job)]
    found = [_judge_job(config, job, judge) for job in live]

    unread = []
    others = sorted(set(queues).difference(published_queues(config.targets)))
    questions: dict[str, Callable[[], Iterable[Resource]]] = {
        **{f"queue {queue}": partial(_jobs_elsewhere, config, judge, queue) for queue in others},
        "instances": lambda: _instances(config, judge, jobs, of_cluster=cluster),
        "file systems": lambda: file_system_resources(
            config.name, judge, live_jobs=len(live), nodes=nodes
        ),
    }
    if cluster:
        questions[f"cluster {cluster.cluster}"] = lambda: cluster_resources(cluster, judge)
    for what, question in questions.items():
        try:
            found += question()
        except NO_ANSWER as error:
            unread.append(f"{what}: {why_unread(error)}")
    return GuardReport(
        installation=config.name,
        region=config.region,
        looked_at=now,
        resources=tuple(found),
        unread=tuple(unread),
    )


def end_leaks(
    report: GuardReport,
    client: Clients,
    ask_run: AskRun,
    *,
    may_end: Collection[str],
    cluster: Cluster | None = None,
    nodes: MultiNode | None = None,
) -> GuardReport:
    """End the leaks that `may_end` allows; return the report with the action taken for each."""
    endings: dict[LeakKind, Ending] = {
        "job": _end_job,
        "instance": _end_instance,
        "parameter": end_parameter,
        "file system": partial(end_file_system, nodes=nodes),
    }
    if cluster:
        endings["node"] = lambda client, _: end_node(cluster, client)

    def action_on(resource: Resource) -> dict[str, object]:
        if resource.verdict != "leaked":
            return {}
        if resource.endable not in may_end:
            return {"action": f"Left alone: end_leaks does not include {resource.endable}."}
        if resource.run and ask_run(resource.run) == "live":
            return {"action": "Left alone: its run is live."}
        try:
            return {"action": endings[resource.kind](client, resource.id), "ended": True}
        except NO_ANSWER as error:
            return {"action": f"Could not be ended: {why_unread(error)}"}

    resources = (each.model_copy(update=action_on(each)) for each in report.resources)
    return report.model_copy(update={"resources": tuple(resources)})


def _end_job(client: Clients, job_id: str) -> str:
    batch = client("batch")
    if not any(map(is_live, describe_jobs(batch, [job_id]).values())):
        return "It had already ended by itself."
    terminate_job(batch, job_id, REASON)
    return "Ended."


def _end_instance(client: Clients, instance_id: str) -> str:
    client("ec2").terminate_instances(InstanceIds=[instance_id])
    return "Ended."


def _jobs(config: Config, batch: Any, now: datetime) -> dict[str, list[JobDescription]]:
    """List queues' recent jobs: live and array jobs from DescribeJobs, others from ListJobs."""
    since = str(int((now - LOOK_BACK).timestamp() * 1000))
    found = {}
    for queue in published_queues(config.targets):
        recent = [{"name": "AFTER_CREATED_AT", "values": [since]}]
        jobs = list(all_pages(batch, "list_jobs", "jobSummaryList", jobQueue=queue, filters=recent))
        asked = [job["jobId"] for job in jobs if is_live(job) or child_ids(job)]
        found[queue] = [job for job in jobs if not (is_live(job) or child_ids(job))]
        found[queue] += describe_jobs(batch, asked).values()
    return found


def _jobs_elsewhere(config: Config, judge: Judge, queue: str) -> Iterator[Resource]:
    """List our live jobs in another owner's queue, which might no longer exist."""
    batch = judge.client("batch")
    there = batch.describe_job_queues(jobQueues=[queue])["jobQueues"]
    named = list_jobs(batch, [each["jobQueueArn"] for each in there], f"{config.name}-")
    described = describe_jobs(batch, [job["jobId"] for job in named if is_live(job)])
    for job in described.values():
        if is_live(job) and job.get("tags", {}).get(INSTALLATION_TAG) == config.name:
            yield _judge_job(config, job, judge)


def _judge_job(config: Config, job: JobDescription, judge: Judge) -> Resource:
    tags = job.get("tags", {})
    seen = Resource(
        kind="job",
        id=job["jobId"],
        what=f"{job['jobName']}, {job['status']}",
        target=tags.get("batchmark:target") or _target_of(config, job["jobQueue"]),
        since=batch_time(job["createdAt"]),
        run=_run_of(job),
        verdict="in use",
        reason="Its run is live.",
    )
    if tags.get(INSTALLATION_TAG) != config.name:
        return seen.judged("by hand", "It lacks the installation's tag, so it is never touched.")
    if job.get("isTerminated") or job.get("isCancelled"):
        return seen.judged("ending", "Its termination was requested.")
    state = judge.ask_run(seen.run) if seen.run else "unknown"
    if state == "live":
        return seen
    grace = judge.limits.grace_minutes
    shown = seen.run.run_id if seen.run else tags.get(RUN_TAG, "(unnamed)")
    if state == "over":
        return judge.leaked(seen, f"Its run {shown} is over.", "jobs", minutes=grace)
    return judge.leaked(seen, unknown_run(shown), "jobs_of_unknown_runs", minutes=grace)


def _run_of(job: JobDescription) -> RunName | None:
    tags = job.get("tags", {})
    # A user's own job chooses its parameters itself.
    run_id = tags.get(RUN_ID_TAG) or job.get("parameters", {}).get("run_id")
    if not run_id or run_id == NO_RUN:
        return None
    if tags.get(RUN_TAG) not in (slug(run_id), url_safe(run_id)):
        return None
    return RunName(dag_id=tags.get(DAG_TAG), run_id=run_id)


def _instances(
    config: Config, judge: Judge, jobs: Jobs, *, of_cluster: Cluster | None
) -> Iterator[Resource]:
    """Judge the installation's instances, except the nodes of its EKS cluster.

    An instance is in use while any job of its target is running, on any instance. If its target is
    not published, for example because Terraform removed it, only jobs on the instance itself count.
    """
    of_none = []
    for seen in judge.running_instances(config.name):
        if of_cluster and seen.target == of_cluster.target:
            continue
        if seen.target in config.targets:
            queues = published_queues({"": config.targets[seen.target]})
            of_target = [job for queue in queues for job in jobs.get(queue, ())]
            yield _judge_instance(seen, of_target, judge)
        else:
            of_none.append(_judge_instance(seen, [], judge))
    # Last: ECS may not answer.
    clusters = _clusters(config, judge.client) if of_none else []
    for seen in of_none:
        if seen.verdict == "leaked" and (tasks := _tasks_on(seen.id, clusters, judge.client)):
            yield seen.judged("in use", f"{tasks} job(s) are running on it.")
        else:
            yield seen


def _clusters(config: Config, client: Clients) -> list[str]:
    """List the ECS clusters of all the installation's compute environments, published or not."""
    found = all_pages(client("batch"), "describe_compute_environments", "computeEnvironments")
    return [
        environment["ecsClusterArn"]
        for environment in found
        if environment.get("tags", {}).get(INSTALLATION_TAG) == config.name
        and "ecsClusterArn" in environment
    ]


def _tasks_on(instance_id: str, clusters: list[str], client: Clients) -> int:
    """Return the number of ECS tasks running or pending on an instance."""
    filter_ = f"ec2InstanceId == {instance_id}"
    return sum(
        one["runningTasksCount"] + one["pendingTasksCount"]
        for cluster in clusters
        for one in container_instances(client("ecs"), cluster, filter=filter_)
    )


def _judge_instance(seen: Resource, jobs: Iterable[JobDescription], judge: Judge) -> Resource:
    """Judge an instance by how long it has been idle since its launch or its target's last job."""
    single = [one for job in jobs for one in job.get(CHILDREN) or [job]]
    running = sum(job["status"] in ON_AN_INSTANCE for job in single)
    if running:
        return seen.judged("in use", f"{running} job(s) of its target are running.")
    waiting = sum(job["status"] == "RUNNABLE" for job in single)
    since = max(
        [seen.since, *(batch_time(one["stoppedAt"]) for one in single if "stoppedAt" in one)]
    )
    idle = judge.limits.idle_minutes
    if judge.now - since < timedelta(minutes=idle):
        return seen.judged("new", f"Idle for less than {idle:g} minutes.")
    but = f" (RUNNABLE: {waiting}; it may never have joined its cluster)" if waiting else ""
    reason = f"No job has been STARTING or RUNNING since {since:%Y-%m-%d %H:%M %Z}{but}."
    return seen.judged("leaked", reason, "instances")


def _target_of(config: Config, queue: str) -> str | None:
    targets = config.targets.items()
    return next((name for name, one in targets if queue in published_queues({name: one})), None)
