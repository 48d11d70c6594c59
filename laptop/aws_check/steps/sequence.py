"""The steps of a check, in order."""

from __future__ import annotations

from functools import partial

from laptop.aws_check.check import Check
from laptop.aws_check.estimate import CPU_TYPE, GPU_TYPE
from laptop.aws_check.step import Step
from laptop.aws_check.steps import image, inbox, jobs, quotas, stack
from laptop.aws_check.steps.local_airflow import LocalAirflow

CPU_QUOTA, ZONES = "CPU quota", "zones"
SPOT_QUOTA, ON_DEMAND_QUOTA = "GPU quota on Spot", "GPU quota On-Demand"
PLAN, APPLY, REPLAN, IMAGE, APPLY_IMAGE = "plan", "apply", "re-plan", "image", "apply the image"
ENVIRONMENTS, INBOX, MESSAGE = "compute environments", "inbox", "message"
CPU_JOB, FAILING_JOB = "CPU job", "failing job"
SPOT_JOB, ON_DEMAND_JOB = "GPU job on Spot", "GPU job On-Demand"
TELEMETRY, AIRFLOW, EMPTY = "telemetry", "Airflow", "down to zero"


def steps_of(check: Check) -> list[Step]:
    """Return all steps that run before a check destroys what it created.

    A host stays up for a few minutes after a job. The failing job therefore directly follows the
    CPU job and runs on its host.
    """
    there = (APPLY_IMAGE, ENVIRONMENTS)
    return [
        Step(
            CPU_QUOTA,
            "vCPUs for one host",
            partial(quotas.quotas, check, CPU_TYPE, "on_demand"),
        ),
        Step(
            SPOT_QUOTA,
            "vCPUs for one host",
            partial(quotas.quotas, check, GPU_TYPE, "spot"),
        ),
        Step(
            ON_DEMAND_QUOTA,
            "vCPUs for one host",
            partial(quotas.quotas, check, GPU_TYPE, "on_demand"),
        ),
        Step(ZONES, "each type is offered in a zone", partial(quotas.zones, check)),
        Step(PLAN, "only creations", partial(stack.plan, check)),
        Step(APPLY, "no error", partial(stack.apply, check), needs=(PLAN,)),
        Step(REPLAN, "no changes", partial(stack.replan, check), needs=(APPLY,)),
        Step(IMAGE, "pushed, with its digest", partial(image.image, check), needs=(APPLY,)),
        Step(
            APPLY_IMAGE,
            "new revisions, and an entry in own_jobs",
            partial(image.apply_images, check),
            needs=(IMAGE,),
        ),
        Step(
            ENVIRONMENTS,
            "ENABLED and VALID, and so are their queues",
            partial(stack.environments, check),
            needs=(APPLY_IMAGE,),
        ),
        Step(INBOX, "subscribed to alerts", partial(inbox.open_inbox, check), needs=(APPLY,)),
        Step(
            CPU_JOB,
            "SUCCEEDED, with a result document from the CPU and a log",
            partial(jobs.job, check, "cpu", "on_demand"),
            needs=(*there, CPU_QUOTA),
        ),
        Step(
            FAILING_JOB,
            "FAILED with exit code 2, and the last log line lists the suites",
            partial(jobs.failing_job, check),
            needs=(CPU_JOB,),
        ),
        Step(
            MESSAGE,
            "a message from SNS about the failed job",
            partial(jobs.message, check),
            needs=(INBOX, FAILING_JOB),
        ),
        Step(
            SPOT_JOB,
            "SUCCEEDED on a Spot host, with a result document from the GPU and a log",
            partial(jobs.job, check, "cuda", "spot"),
            needs=(*there, SPOT_QUOTA),
        ),
        Step(
            ON_DEMAND_JOB,
            "SUCCEEDED on an On-Demand host, with a result document from the GPU and a log",
            partial(jobs.job, check, "cuda", "on_demand"),
            needs=(*there, ON_DEMAND_QUOTA),
        ),
        Step(
            TELEMETRY,
            "metrics from the jobs in CloudWatch",
            partial(jobs.telemetry, check),
            needs=(CPU_JOB,),
        ),
        *airflow_steps(LocalAirflow(check)),
        *(step for part in check.parts for step in part.steps(check)),
        Step(EMPTY, "no host is left", partial(jobs.down_to_zero, check), needs=(APPLY,)),
    ]


def airflow_steps(airflow: LocalAirflow) -> list[Step]:
    needs = (AIRFLOW,)
    # If a directly submitted job fails, a run's jobs would too, for more money. A run buys Spot
    # first, so with a quota of 0 its jobs would wait for an hour.
    jobs_run = (AIRFLOW, CPU_JOB, ON_DEMAND_JOB, SPOT_QUOTA)
    return [
        Step(
            AIRFLOW,
            "healthy, with only its role's permissions",
            airflow.start,
            needs=(APPLY_IMAGE,),
            again=True,
        ),
        Step("environment check", "no failures, all checked", airflow.environment_check, needs),
        Step(
            "benchmark",
            "success, a report with today's prices",
            airflow.benchmark,
            needs=jobs_run,
        ),
        Step(
            "own job",
            "success, a report with today's prices",
            airflow.own_job,
            needs=jobs_run,
        ),
        Step("leak guard", "nothing leaked", airflow.leak_guard, needs),
        Step(
            "Airflow's rights",
            "AWS refuses no call of its runs, but refuses three forbidden calls",
            airflow.rights,
            needs,
        ),
    ]
