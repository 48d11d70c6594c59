"""Builders of rows that nodes measure together, from a cluster whose parts are known."""

from dataclasses import dataclass, field
from statistics import median

from batchmark_job.result.document import MeasurementStatus
from batchmark_job.result.scaling import Scaling, ScalingNode, StepSplit, TrainingSettings
from batchmark_job.result.scaling_options import ScalingOptions
from tests.builders.runs import build_job, build_row, noisy

MIB = 2**20
GRADIENTS = 102_228_128  # bytes of ResNet-50's, in float32
SETTINGS = TrainingSettings(
    learning_rate=0.1,
    momentum=0.9,
    weight_decay=1e-4,
    epochs=90,
    warmup_epochs=10,
    images_per_epoch=1_281_167,
)


@dataclass(frozen=True)
class Cluster:
    """Nodes on which a step takes what it must: the truth that a report should find again."""

    compute: float = 0.160  # seconds of 64 images
    data: float = 0.0
    latency: float = 20e-6
    per_byte: float = 1 / 1.2e9
    hidden: float = 0.120  # of the exchange, behind computing
    devices: int = 1
    congested_from: int = 1_000  # nodes from which on the network has a quarter of its bandwidth
    spread: float = 0.01
    model: str = "NVIDIA A10G"
    backend: str = "nccl"
    parameters: dict = field(default_factory=dict)

    def all_reduce(self, nodes, size_bytes):
        ranks = nodes * self.devices
        slower = 4 if nodes >= self.congested_from else 1
        hops = 2 * (ranks - 1) * self.latency
        return hops + 2 * (ranks - 1) / ranks * size_bytes * self.per_byte * slower

    def exposed(self, nodes):
        if nodes * self.devices == 1:
            return 0.0
        return max(self.all_reduce(nodes, GRADIENTS) - self.hidden, 0.0)

    def step(self, nodes, batch=64):
        return self.compute * batch / 64 + self.data + self.exposed(nodes)

    def efficiency(self, nodes, of=1):
        return self.step(of) / self.step(nodes)

    def scaling(self, nodes, **fields):
        found = tuple(
            ScalingNode(
                index=index,
                host=f"10.0.0.{index + 10}",
                instance_type="g5.xlarge",
                device_model=self.model,
                devices=self.devices,
                joined_seconds=2.0 * index,
            )
            for index in range(nodes)
        )
        return Scaling(**{"nodes": found, "backend": self.backend} | fields)

    def training(self, nodes, batch=64, *, image=224, data="synthetic", seed=0, **fields):
        split = StepSplit(
            data_seconds=self.data,
            compute_seconds=self.compute * batch / 64,
            communication_seconds=self.exposed(nodes),
        )
        told = {
            "settings": SETTINGS,
            "split": split,
            "losses": (7.0, 6.5, 6.1),
            "gpu_busy_share": 0.97 if self.backend == "nccl" else None,
            "gradient_bytes": GRADIENTS,
        }
        told |= {name: fields.pop(name) for name in tuple(told) if name in fields}
        own = {"image": image, "data": data, **self.parameters, **fields.pop("own", {})}
        return self._row(
            "resnet50_data_parallel",
            nodes,
            self.step(nodes, batch),
            {"batch": batch, **own},
            seed=seed,
            items=nodes * self.devices * batch,
            scaling=self.scaling(nodes, **told),
            **fields,
        )

    def all_reduces(self, nodes, sizes=(1, 16, 64, 256), *, seed=0):
        return [
            self._row(
                "all_reduce",
                nodes,
                self.all_reduce(nodes, mib * MIB),
                {"mib": mib},
                seed=seed,
                scaling=self.scaling(nodes),
            )
            for mib in sizes
        ]

    def reading(self, nodes, kind, bytes_per_second, *, size_bytes=10**10, **fields):
        seconds = size_bytes / bytes_per_second / nodes
        return self._row(
            "read_images",
            nodes,
            seconds,
            {"pass": kind},
            count=1 if kind == "cold" else 8,
            bytes_moved=size_bytes,
            scaling=self.scaling(nodes),
            **fields,
        )

    def _row(self, workload, nodes, seconds, parameters, *, seed=0, count=30, **fields):
        samples = noisy(seconds, count=count, spread=self.spread, seed=seed)
        centre = median(samples) / seconds if not seed else 1.0
        return build_row(
            [one / centre for one in samples],
            workload=workload,
            parameters={"nodes": nodes, "devices": self.devices, **parameters},
            **{"dtype": "bfloat16"} | fields,
        )


def otherwise(row, *nodes, split=None, **told):
    """The row as if its nodes told this: changes of each node in turn, and of the split's parts."""
    scaling = row.scaling
    if nodes:
        pairs = zip(scaling.nodes, nodes, strict=True)
        told["nodes"] = tuple(node.model_copy(update=change) for node, change in pairs)
    if split:
        told["split"] = scaling.split.model_copy(update=split)
    return row.model_copy(update={"scaling": scaling.model_copy(update=told)})


def unscaled_row(
    nodes, reason, *, workload="resnet50_data_parallel", status="failed", **parameters
):
    """A row that could not be measured."""
    return build_row(
        workload=workload,
        parameters={"nodes": nodes, "devices": 1, **parameters},
        dtype="bfloat16",
        status=MeasurementStatus(status),
        reason=reason,
    )


def plan(nodes, devices=1, **fields):
    values = {"batches": (64,), "image": 224, "data": ("synthetic",), "steps": 50}
    return ScalingOptions(nodes=nodes, devices=devices, settings=SETTINGS, **values | fields)


def scaling_job(target, nodes, rows, *, devices=1, repeat=1, **fields):
    """A job of so many nodes."""
    job_id = fields.pop("job_id", f"{target.replace('.', '-')}-on-{nodes}-{repeat}#0")
    job = build_job(target, rows, suite="scaling", repeat=repeat, job_id=job_id, **fields)
    dtypes = {row.dtype for row in rows}
    own = {"dtype": dtypes.pop() if len(dtypes) == 1 else "suite"}
    planned = job.planned.model_copy(update={"scaling": plan(nodes, devices), **own})
    return job.model_copy(update={"planned": planned})


def job_of(*rows, **fields):
    """A GPU target's job of as many nodes as its rows name."""
    return scaling_job("g5.xlarge", rows[0].parameters["nodes"], rows, **fields)


def sweep(cluster, numbers, *, target="g5.xlarge", strong=False, all_reduce=True, **fields):
    """A job for each number of nodes: weak, and if wanted strong, with all-reduces."""
    jobs = []
    for nodes in numbers:
        rows = [cluster.training(nodes, **fields.get("training", {}))]
        if strong and nodes > 1:
            rows.append(cluster.training(nodes, 64 // nodes))
        if all_reduce and nodes * cluster.devices > 1:
            rows += cluster.all_reduces(nodes)
        of_job = {name: value for name, value in fields.items() if name != "training"}
        jobs.append(scaling_job(target, nodes, rows, devices=cluster.devices, **of_job))
    return jobs
