"""An account in which runs are planned: a bucket in memory and given prices, as tasks read them."""

from types import SimpleNamespace

import boto3

from batchmark.aws import price_list
from batchmark.aws.result_bucket import RunStore
from batchmark.orchestration.tasks import approval
from batchmark.runs.spending import RunSpending
from tests.builders.installations import configured, own_types
from tests.builders.spending import build_spending
from tests.stand_ins.bucket import MemoryBucket

RUN_ID, DAG_ID = "scheduled__2026-11-20", "gpu_cpu_benchmark"
MONTH, SCHEDULE = "2026-11", "0 3 1,15 * *"
READS = ("Get", "List")


class PlanningAccount:
    """What `modules` of tasks, and those of every plan, take for theirs.

    Attributes:
        config, prices: what Terraform published and what AWS lists now; tests may change them.
        asked: the instance types whose prices were asked for, each time.
    """

    def __init__(self, monkeypatch, config, prices, *modules):
        self.config, self.prices, self.asked = config, prices, []
        self.s3 = MemoryBucket(config.bucket, config.region)
        self.clients = {"s3": self.s3, "pricing": None, "ec2": None}
        monkeypatch.setattr(boto3, "client", self.client)
        monkeypatch.setattr(price_list, "fetch_prices", self._fetch_prices)
        for module in (approval, *modules):
            monkeypatch.setattr(module, "load_config", lambda: self.config)

    def client(self, name, **_):
        return self.clients[name]

    def _fetch_prices(self, *_, instance_types, **__):
        self.asked.append(set(instance_types))
        return self.prices

    def store(self, run_id):
        return RunStore.of(self.config, run_id)

    @property
    def writes(self):
        return [name for name, _ in self.s3.calls if not name.startswith(READS)]

    def objects(self):
        return sorted(self.s3.objects)

    def put(self, key, text):
        self.s3.objects[key] = text.encode()

    def read(self, key):
        return self.s3.objects[key]

    def record(self, name):
        return RunSpending.model_validate_json(self.read(f"costs/{MONTH}/{name}.json"))

    def book(self, name, **fields):
        """Another run of this month."""
        record = build_spending(fields.pop("run_id", name), **fields)
        self.put(f"costs/{MONTH}/{name}.json", record.model_dump_json())


def two_targets(**fields):
    return configured(targets=own_types(**{"g5.xlarge": {}, "c5.2xlarge": {}}), **fields)


def benchmark_context(*, jobs_state="success", run_id=RUN_ID, cleared=0, dag_id=DAG_ID, **params):
    """Of a run that measures the suite blog once, where `params` say nothing else."""
    defaults = {
        "suite": "blog",
        "dtype": "float32",
        "targets": [],
        "repeats": 1,
        "max_cost_usd": 50,
        "dry_run": False,
    }
    states = {RUN_ID: {"run_benchmark": jobs_state}}
    of_ti = {"cleared": cleared, "dag_id": dag_id, "get_task_states": lambda **_: states}
    return planning_context(run_id, defaults | params, **of_ti)


def planning_context(run_id, params, *, dag_id=DAG_ID, cleared=0, **of_ti):
    """The context of a task of two retries, after the task was cleared so often."""
    ti = {"dag_id": dag_id, "max_tries": 2 + cleared, "xcom_push": lambda **_: None}
    return {
        "run_id": run_id,
        "params": params,
        "ti": SimpleNamespace(**ti | of_ti),
        "task": SimpleNamespace(retries=2),
        "dag": SimpleNamespace(timetable=SimpleNamespace(expression=SCHEDULE)),
    }
