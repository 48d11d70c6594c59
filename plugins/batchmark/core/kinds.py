"""Our DAGs, one record each: who lists DAGs, on pages, for costs, or to find leaks, reads this."""

from __future__ import annotations

from typing import NamedTuple


class Kind(NamedTuple):
    """What a run of a DAG is."""

    dag_id: str
    title: str  # as Airflow shows it
    pages: tuple[str, ...] = ()  # in the run's folder, as HTML; the first that is there is shown
    folder: str | None = None  # of pages by day, of runs without a folder of their own
    costs: bool = False  # it is planned and booked, and stands in the list of runs
    jobs: bool = False  # it submits Batch jobs, and the leak guard asks whether it still runs
    no_reruns: str | None = None  # why its suspects are never measured again

    @property
    def has_pages(self) -> bool:
        return bool(self.pages or self.folder)


def _benchmark(dag_id: str, title: str, *, jobs: bool = True, no_reruns: str | None = None) -> Kind:
    return Kind(dag_id, title, ("report", "plan"), costs=True, jobs=jobs, no_reruns=no_reruns)


KINDS = {
    kind.dag_id: kind
    for kind in (
        _benchmark("gpu_cpu_benchmark", "GPU-CPU benchmark"),
        _benchmark("gpu_sharing_benchmark", "GPU sharing benchmark"),
        _benchmark(
            "eks_gpu_sharing_benchmark",
            "EKS GPU sharing benchmark",
            jobs=False,
            no_reruns="the node of its pods has ended by then",
        ),
        _benchmark("distributed_training_benchmark", "Distributed training benchmark"),
        _benchmark("own_job_benchmark", "Own job benchmark"),
        _benchmark("job_comparison", "Job comparison"),
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
SUBMITTING = tuple(kind.dag_id for kind in KINDS.values() if kind.jobs)


def title(dag_id: str | None) -> str:
    """What people call a DAG; of one that isn't ours its id."""
    kind = KINDS.get(dag_id or "")
    return kind.title if kind else dag_id or ""
