"""Keys of XComs, and ids of the tasks that run fresh jobs."""

from __future__ import annotations

JOB_ID_XCOM = "job_id"
JOB_IDS_XCOM = "job_ids"
FAILURE_XCOM = "failure"  # why a task failed
TIMING_XCOM = "timing"
PODS_XCOM = "pods"  # when a Kubernetes job ran, and how it ended
RERUN_TASKS = ("rerun_once", "rerun_twice")  # by round
JOB_TASKS = ("run_benchmark", *RERUN_TASKS)
