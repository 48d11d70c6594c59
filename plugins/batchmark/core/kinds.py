"""A table of Batchmark's DAGs, used by the pages, cost accounting and the leak guard."""

from __future__ import annotations

from typing import NamedTuple


class Kind(NamedTuple):
    """One of Batchmark's DAGs, with the properties of its runs."""

    dag_id: str
    title: str  # as Airflow shows it
    pages: tuple[str, ...] = ()  # in the run's folder, as HTML; the first that is there is shown
    folder: str | None = None  # of pages by day, of runs without a folder of their own
    costs: bool = False  # it is planned and booked, and stands in the list of runs
    jobs: bool = False  # it submits Batch jobs, and the leak guard asks whether it still runs
    no_reruns: str | None = None  # why its suspects are never measured again
    study: str | None = None  # the room in analysis/ and in report/ that answers what it asks

    @property
    def has_pages(self) -> bool:
        return bool(self.pages or self.folder)


def benchmark(
    dag_id: str,
    title: str,
    study: str | None = None,
    *,
    jobs: bool = True,
    no_reruns: str | None = None,
) -> Kind:
    """Return the kind of a DAG that plans, books, measures and reports on benchmark runs."""
    pages = ("report", "plan")
    return Kind(dag_id, title, pages, costs=True, jobs=jobs, no_reruns=no_reruns, study=study)


OWN_JOB_DAG, OWN_JOB_SCHEDULE_DAG = "own_job_benchmark", "own_job_schedule"
COMPARISON_DAG = "job_comparison"
KINDS = {
    kind.dag_id: kind
    for kind in (
        benchmark("gpu_cpu_benchmark", "GPU-CPU benchmark"),
        benchmark("gpu_sharing_benchmark", "GPU sharing benchmark", "sharing"),
        benchmark(
            "eks_gpu_sharing_benchmark",
            "EKS GPU sharing benchmark",
            "sharing",
            jobs=False,
            no_reruns="the node for its pods no longer exists by then",
        ),
        benchmark("distributed_training_benchmark", "Distributed training benchmark", "scaling"),
        benchmark(OWN_JOB_DAG, "Own job benchmark", "own_jobs"),
        benchmark(COMPARISON_DAG, "Job comparison", "own_jobs"),
        Kind(OWN_JOB_SCHEDULE_DAG, "Own job schedule"),
        Kind("noise_calibration", "Noise calibration", ("noise", "plan"), costs=True, jobs=True),
        Kind("environment_check", "Environment check", ("environment",)),
        Kind("leak_guard", "Leak guard", folder="guard"),
        Kind("diagnose_queue", "Diagnose queue", folder="diagnoses"),
        Kind("detector_self_test", "Detector self-test", folder="self_test"),
        Kind("change_alert", "Change alert"),
        Kind("send_alerts", "Send alerts"),
    )
}
COSTING = tuple(kind.dag_id for kind in KINDS.values() if kind.costs)
STUDIES = tuple(dict.fromkeys(kind.study for kind in KINDS.values() if kind.study))
SUBMITTING = tuple(kind.dag_id for kind in KINDS.values() if kind.jobs)


def title(dag_id: str | None) -> str:
    """Return a DAG's display name, or its ID if the DAG isn't one of Batchmark's."""
    kind = KINDS.get(dag_id or "")
    return kind.title if kind else dag_id or ""
