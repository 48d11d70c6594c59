"""Pods whose first replica writes the job's result document, as the job does."""

from __future__ import annotations

from collections.abc import Callable

from batchmark_job.result.sharing import Replica, ReplicaOutcome, Sharing
from tests.builders.runs import GPU_ENVIRONMENT, build_job, build_row
from tests.stand_ins.kubernetes_api.containers import Containers
from tests.stand_ins.kubernetes_api.resources import Object, index_of


class MeasuringPods(Containers):
    """`put` stores a text under a key of the result bucket."""

    def __init__(self, put: Callable[[str, str], object]) -> None:
        super().__init__()
        self.put = put

    def start(self, pod: Object) -> None:
        super().start(pod)
        if index_of(pod) == 0:
            self.write(pod)

    def write(self, pod: Object) -> None:
        (container,) = pod["spec"]["containers"]
        options = dict(zip(container["command"][4::2], container["command"][5::2], strict=True))
        variables = {one["name"]: one["value"] for one in container["env"]}
        name = variables["AWS_BATCH_JOB_ID"]
        mode, replicas = options["--modes"], int(options["--replicas"])
        row = build_row(
            [0.01] * 15,
            workload="cnn_training_step",
            parameters={"batch": 32, "mode": mode, "replicas": replicas, "form": "pods"},
            sharing=Sharing(
                mode=mode,
                form="pods",
                replicas=(Replica(outcome=ReplicaOutcome.RAN),) * replicas,
            ),
        )
        job = build_job(
            options["--target"],
            [row],
            suite="sharing",
            job_id=name,
            environment=GPU_ENVIRONMENT.model_copy(update={"instance_type": "g4dn.12xlarge"}),
        )
        document = job.document.model_copy(update={"run_id": options["--run-id"]})
        folder = options["--output"].removeprefix("s3://").partition("/")[2]
        self.put(f"{folder}{name}.1.json", document.to_json())
