"""The chain's tasks, each broken in one way that the matrix must see."""

import re
from functools import partial
from unittest.mock import patch

from airflow.sdk.exceptions import AirflowFailException

from batchmark.aws.boto_clients import client
from batchmark.aws.result_bucket import RunStore
from batchmark.history.store import HistoryStore
from batchmark.orchestration.settings import load_config
from batchmark.orchestration.tasks import run
from batchmark.runs import collected_runs


def plans_no_job(context, **options):
    run.plan_jobs(context, **options)
    return []


def plans_each_job_twice(context, **options):
    return run.plan_jobs(context, **options) * 2


def collects(change, context, task_id):
    """Collect, but store the run as `change` makes it."""
    store_run = collected_runs.store_run
    with patch.object(
        collected_runs, "store_run", lambda store, collected: store_run(store, change(collected))
    ):
        return run.collect_results(context, task_id)


def loses_all(collected):
    return collected.model_copy(update={"jobs": ()})


def gives_no_reason(collected):
    lost = tuple(one.model_copy(update={"reason": ""}) for one in collected.lost)
    return collected.model_copy(update={"lost": lost})


def raises_on_a_lost_job(collected):
    if collected.lost:
        raise AirflowFailException("a job is lost")
    return collected


def removes_the_documents(collected):
    config = load_config()
    store = RunStore.of(config, collected.run_id)
    for key in store.keys(f"raw/{store.name}/"):
        client("s3", config.region).delete_object(Bucket=config.bucket, Key=key)
    return collected


def collects_into(append, context, task_id):
    """Collect, with another way to append to the history."""
    with patch.object(HistoryStore, "append", append):
        return run.collect_results(context, task_id)


def forgets_the_history(*_):
    return ()


def doubles_the_history(store, *run, append=HistoryStore.append):
    keys = append(store, *run)
    for key in keys:
        store.put(re.sub(r"month=\d{4}", "month=2001", key), store.get(key))
    return keys


BROKEN = {
    "plans_no_job": {"plan": plans_no_job},
    "plans_each_job_twice": {"plan": plans_each_job_twice},
    **{
        change.__name__: {"collect": partial(collects, change)}
        for change in (loses_all, gives_no_reason, raises_on_a_lost_job, removes_the_documents)
    },
    **{
        append.__name__: {"collect": partial(collects_into, append)}
        for append in (forgets_the_history, doubles_the_history)
    },
}
