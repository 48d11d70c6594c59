"""The chain's tasks, each broken in ways that the matrix must see."""

import re
from functools import partial
from unittest.mock import patch

from airflow.sdk.exceptions import AirflowFailException

from batchmark.aws.boto_clients import client
from batchmark.aws.result_bucket import RunStore
from batchmark.changes.alerts.store import AlertStore
from batchmark.history.store import HistoryStore
from batchmark.orchestration import channels
from batchmark.orchestration.operators.batch_operator import BenchmarkJobOperator
from batchmark.orchestration.settings import load_config
from batchmark.orchestration.tasks import alerts, run
from batchmark.runs import collected_runs

ALERTING = {"open_alerts", "publish_alerts"}


def plans_no_job(context, **options):
    run.plan_jobs(context, **options)
    return []


def plans_each_job_twice(context, **options):
    return run.plan_jobs(context, **options) * 2


class SubmitsNothing(BenchmarkJobOperator):
    def execute(self, context):
        return None


class SubmitsTwice(BenchmarkJobOperator):
    def execute(self, context):
        request = self._request(context)
        other = request | {"jobName": f"{request['jobName']}-again"}
        self.clients("batch").submit_job(**other)
        return super().execute(context)


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


def opens_no_alert(context, changes_key):
    return []


def sends_no_alert(context, alert_ids, report_key):
    return None


def sends_each_alert_twice(context, alert_ids, report_key):
    alerts.publish_alerts(context, alert_ids, report_key)
    config = load_config()
    message = AlertStore(RunStore.of(config, context["run_id"])).message(context["run_id"])
    channels.send(config, "sns", message)


def named(task, *broken):
    return {one.__name__: {task: one} for one in broken}


BROKEN = {
    **named("plan_jobs", plans_no_job, plans_each_job_twice),
    **named("run_benchmark", SubmitsNothing, SubmitsTwice),
    **{
        change.__name__: {"collect_results": partial(collects, change)}
        for change in (loses_all, gives_no_reason, raises_on_a_lost_job, removes_the_documents)
    },
    **{
        append.__name__: {"collect_results": partial(collects_into, append)}
        for append in (forgets_the_history, doubles_the_history)
    },
    **named("open_alerts", opens_no_alert),
    **named("publish_alerts", sends_no_alert, sends_each_alert_twice),
}

# The benchmark's tasks that no chain of these has, and why.
CHECKED_BEFORE = "it runs before anything is planned"
DRAWN = "it draws what was collected"
MADE_UP_CHANGES = "the chains' find_changes makes up what it would find"
TOLD_TO_DAGS = "no alert: it makes an event for other DAGs"
WITHOUT_MUTANT = {
    "check_environment": CHECKED_BEFORE,
    "compare": DRAWN,
    "publish_report": DRAWN,
    "find_suspects": MADE_UP_CHANGES,
    "rerun_once": MADE_UP_CHANGES,
    "find_agreeing": MADE_UP_CHANGES,
    "rerun_twice": MADE_UP_CHANGES,
    "detect_regressions": MADE_UP_CHANGES,
    "announce_regressions": TOLD_TO_DAGS,
}
