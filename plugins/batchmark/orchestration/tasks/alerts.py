"""The alert tasks in benchmark runs and in the DAGs change_alert and send_alerts.

`open_alerts` creates and stores alerts, `publish_alerts` sends them, and `announce_regressions`
notifies other DAGs. The last doesn't depend on the second, so a channel outage can't delay it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from operator import methodcaller
from typing import TYPE_CHECKING

from airflow.sdk import Context, Param
from airflow.sdk.configuration import conf
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

from batchmark.aws.result_bucket import COLLECTED, REPORT_HTML, RunStore
from batchmark.changes.alerts.records import BY_HAND
from batchmark.changes.alerts.store import AlertStore
from batchmark.core.config import Config
from batchmark.core.errors import AlertError, ConfigError
from batchmark.core.names import run_name
from batchmark.core.suites import suite_names
from batchmark.orchestration.assets import REGRESSIONS, regressions_metadata
from batchmark.orchestration.settings import load_alert_settings, load_config
from batchmark.orchestration.telling import console, tell
from batchmark.report.tables import alert_table
from batchmark.report.terminal.sections import print_blocks

if TYPE_CHECKING:
    from batchmark.changes.alerts.outbox import Delivery, RunMessage
    from batchmark.changes.alerts.records import Alert
    from batchmark.changes.records import Change
    from batchmark.core.run import StoredRun


def change_params() -> dict[str, Param]:
    return {
        "alert_id": Param(
            "",
            type="string",
            description="Id of the alert, as shown in the message or report, such as 3f9a1c0b72.",
        ),
        "state": Param(
            "acknowledged",
            enum=list(BY_HAND),
            description="acknowledged: someone is working on it. invalid: nothing actually "
            "changed. fixed: the cause is believed to have been removed. open: none of the other "
            "states applies.",
        ),
        "note": Param("", type="string", description="Reason, which is stored with the alert."),
    }


def check_settings() -> None:
    """Check that alerts could be sent with the current settings, without sending anything.

    Raises:
        AlertError: the settings, or a connection named in them, can't be used.
    """
    from batchmark.orchestration.channels import check_channels

    check_channels(load_alert_settings())


def open_alerts(context: Context, changes_key: str) -> list[str]:
    """Store the run's new alerts and its message; return the ids of the message's alerts.

    Nothing is sent. A retry finds the stored message and applies whatever hasn't been applied yet.
    """
    from batchmark.changes.records import RunChanges

    config = load_config()
    store = RunStore.of(config, context["run_id"])
    alerts = AlertStore(store)
    message = alerts.message(context["run_id"])
    if message is None:
        changes = RunChanges.model_validate_json(store.read(changes_key)).changes
        message = decide(config, store, context["run_id"], changes, datetime.now(UTC))
    if message is None:
        tell("No alert to open and none to change.")
        return []
    alerts.apply(message)
    if message.opened:
        print_blocks([alert_table(message.opened, "Opened by this run")], console())
    tell(message.text)
    return message.alert_ids


def publish_alerts(
    context: Context, alert_ids: Sequence[str] | None, report_key: str | None
) -> None:
    """Send the run's message, if it has one, through each channel independently.

    As the last task of a run, it also fails if `alert_ids` or `report_key` is None, because
    open_alerts or publish_report left no result.

    Raises:
        AlertError: a channel didn't accept it; a retry or the DAG send_alerts will send it again.
        AirflowFailException: raised after sending if the run is incomplete, or if it is unknown
            whether a channel received the message. In the latter case, clearing the task makes it
            succeed.
        AirflowSkipException: the run is a dry run, or nothing was planned.
    """
    try:
        config = load_config()
    except ConfigError as error:
        raise AirflowFailException(str(error)) from error  # it would fail again
    store = RunStore.of(config, context["run_id"])
    alerts = AlertStore(store)
    message = alerts.message(context["run_id"])
    if message is None:
        tell("Nothing to send: this run neither opened nor changed an alert.")
    else:
        # A try of this task that has no answer died with the task.
        _send(config, alerts, [message], longest_try=timedelta(0))
    if alert_ids is None or report_key is None:
        plan = store.plan()
        if not plan.jobs:
            raise AirflowSkipException("nothing was planned; see the failed task before this one")
        if plan.dry_run:
            raise AirflowSkipException("this is a dry run, so nothing was measured")
        missing = "open_alerts" if alert_ids is None else "publish_report"
        raise AirflowFailException(f"the run is incomplete; see {missing} and the tasks before it")


def announce_regressions(context: Context) -> None:
    """Emit a REGRESSIONS asset event with the alerts that the run opened.

    Raises:
        AirflowSkipException: the run opened no alerts, so there is no event.
    """
    alerts = AlertStore(RunStore.of(load_config(), context["run_id"]))
    message = alerts.message(context["run_id"])
    if message is None or not message.new_alerts:
        raise AirflowSkipException("this run opened no alerts")
    metadata = regressions_metadata(message, alerts.message_key(message.run_id))
    context["outlet_events"][REGRESSIONS].extra = metadata


def change_alert(context: Context) -> str:
    """Set an alert to the state chosen in the form, and return the alert's id.

    Raises:
        AirflowFailException: the alert doesn't exist, or it can't change to that state.
    """
    params, run_id = context["params"], context["run_id"]
    by = context["dag_run"].triggering_user_name or "somebody"
    now = datetime.now(UTC)

    def asked_for(alert: Alert) -> Alert:
        return alert.become(params["state"], at=now, by=by, run_id=run_id, note=params["note"])

    alerts = AlertStore(RunStore.of(load_config(), run_id))
    try:
        alert = alerts.change_alert(params["alert_id"].strip(), asked_for)
    except AlertError as error:
        raise AirflowFailException(str(error)) from error  # it would fail again
    print_blocks([alert_table([alert], "The changed alert")], console())
    return alert.id


def send_pending(context: Context) -> None:
    """Send every run's messages that haven't been delivered yet.

    Raises:
        AlertError: a channel still doesn't accept a message.
        AirflowFailException: it is unknown whether a message arrived; raised once per message.
    """
    from batchmark.changes.alerts.delivering import LONGEST_TRY

    config = load_config()
    alerts = AlertStore(RunStore.of(config, context["run_id"]))
    waiting = [one for one in alerts.messages() if one.of("pending", "failed", "sending")]
    for message in waiting:
        alerts.apply(message)  # open_alerts may have died for good
    if not waiting:
        tell("Nothing to send: no message is waiting.")
    _send(config, alerts, waiting, longest_try=LONGEST_TRY)


def decide(
    config: Config, store: RunStore, run_id: str, changes: Iterable[Change], now: datetime
) -> RunMessage | None:
    """Create the run's message, or return None if nothing is new and nothing failed.

    Changes that join an older alert aren't new. They are stored immediately, so that a retry
    doesn't join them again.
    """
    from batchmark.analysis.failures import failed_jobs
    from batchmark.changes.alerts.merging import merge
    from batchmark.changes.alerts.outbox import unsure_runs
    from batchmark.orchestration.channels import channels_of
    from batchmark.report import failures
    from batchmark.report.changes.alert_message import MessageContext, build_message
    from batchmark.runs.collected_runs import stored_run

    alerts, settings = AlertStore(store), load_alert_settings()
    before = alerts.alerts()
    merged = merge(before, alerts.improvements(), changes, settings, run_id=run_id, at=now)
    for joined in merged.joined:
        alerts.change_alert(joined.alert_id, methodcaller("join", joined))
    run = stored_run(store, store.prefix + COLLECTED)
    suites = suite_names(job.suite for job in store.plan().jobs)
    message_context = MessageContext(
        installation=config.name,
        run=run_name(run_id, f"{now:%Y-%m-%d}", suites),
        report_url=store.object_url(store.prefix + REPORT_HTML),
        log_urls=_log_urls(run),
        airflow_url=conf.get("api", "base_url", fallback=None),
        unsure_runs=unsure_runs(alerts.messages()),
        failures=failures.message(failed_jobs(run), run.lost) if run else (),
    )
    message = build_message(
        merged,
        alerts.alerts() if merged.joined else before,
        message_context,
        run_id=run_id,
        created_at=now,
        channels=channels_of(config, settings),
    )
    return message and alerts.create(message)


def _log_urls(run: StoredRun | None) -> dict[tuple[str, str], str]:
    """Return the jobs' log URLs by suite and target, using the first of any repeats."""
    jobs = run.jobs if run else ()
    return {(job.planned.suite, job.planned.target): job.log_url for job in reversed(jobs)}


def _send(
    config: Config, alerts: AlertStore, messages: Iterable[RunMessage], *, longest_try: timedelta
) -> None:
    """Send messages and log how each was delivered.

    Raises:
        AlertError: a channel didn't accept a message.
        AirflowFailException: it is unknown whether a message arrived; raised once per message.
    """
    from batchmark.changes.alerts.delivering import deliver
    from batchmark.orchestration.channels import channels_of, send
    from batchmark.report.tables import delivery_lines

    channels = channels_of(config, load_alert_settings())
    failed, unsure = [], []
    for message in messages:
        sent = deliver(
            alerts,
            message.run_id,
            partial(send, config),
            channels=channels,
            now=datetime.now(UTC),
            longest_try=longest_try,
        )
        failed += [(sent, one) for one in sent.of("failed") if one.channel in channels]
        unsure += [(sent, one) for one in sent.of("unsure") if not one.shown]
        tell(f"Message of run {sent.run_id}:", *(f"  {line}" for line in delivery_lines(sent)))
    if failed:
        raise AlertError("not everything was sent: " + _listed(failed))
    for run_id in dict.fromkeys(message.run_id for message, _ in unsure):
        alerts.change_message(run_id, methodcaller("with_unsure_shown"))
    if unsure:
        raise AirflowFailException(
            "a message may not have arrived and will not be sent again; check the channel, and if "
            "the message is missing there, read the run's report: " + _listed(unsure)
        )


def _listed(deliveries: Iterable[tuple[RunMessage, Delivery]]) -> str:
    return "; ".join(f"run {of.run_id}, {one.channel}: {one.reason}" for of, one in deliveries)
