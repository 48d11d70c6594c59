"""Runs of the benchmark with a history before them, and what they left."""

from datetime import timedelta

from batchmark.aws.result_bucket import CHANGES, COLLECTED
from batchmark.changes.records import RunChanges
from batchmark.core.names import slug
from batchmark.history.store import HistoryStore, run_prices
from batchmark.runs.collected_runs import readable_run
from laptop.demo import DAG_ID
from tests.e2e.stacks import run_dag, store_of

CONF = {"suite": "own"}
SLOWER = 1.1
EARLIER_RUNS = 12
TARGETS = ("c5.2xlarge", "g4dn.xlarge")


def run(airflow):
    return run_dag(airflow, DAG_ID, CONF)


def changes_of(aws, run_id):
    store = store_of(aws, run_id)
    return RunChanges.model_validate_json(store.read(store.prefix + CHANGES))


def put_earlier_runs(aws, run_id, image=None):
    """Let the history hold a measured run as often as weeks of schedule would have left it.

    Args:
        image: what the jobs' image was called a number of weeks ago; as it is called now if None.
    """
    config, store = aws.config(), store_of(aws, run_id)
    measured = readable_run(store, store.prefix + COLLECTED)
    prices = run_prices(store, config.region, measured)
    for ago in range(1, EARLIER_RUNS + 1):
        jobs = []
        for job in measured.jobs:
            moved = {
                name: getattr(job.document, name) - timedelta(weeks=ago)
                for name in ("started_at", "finished_at")
            }
            # Runs of weeks differ by more than the calls of one job.
            factor = 1 + 0.004 * ((ago * 7) % 5 - 2)
            rows = tuple(
                row.model_copy(
                    update={"samples_seconds": tuple(factor * s for s in row.samples_seconds)}
                )
                for row in job.document.measurements
            )
            environment = job.document.environment
            if image:
                environment = environment.model_copy(update={"image": image(ago)})
            changed = moved | {"measurements": rows, "environment": environment}
            document = job.document.model_copy(update=changed)
            jobs.append(job.model_copy(update={"document": document}))
        earlier = measured.model_copy(
            update={"run_id": f"{run_id}-{ago}-weeks-before", "jobs": tuple(jobs)}
        )
        history = HistoryStore(aws.client("s3"), config.bucket)
        history.append(earlier, prices, slug(earlier.run_id))
