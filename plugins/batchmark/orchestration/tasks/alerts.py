"""What the tasks of alerts do, those of a benchmark's run and those of the DAGs beside it.

`open_alerts` decides and keeps, `publish_alerts` sends, `announce_regressions` tells other DAGs.
The latter two depend on the first alone, so that a channel that is down keeps no event back.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import partial
from operator import methodcaller
from typing import TYPE_CHECKING

from airflow.sdk import Param
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

from batchmark.assets import REGRESSIONS, regressions_metadata
from batchmark.config import load_config
from batchmark.exceptions import AlertError, ConfigError
from batchmark.store import COLLECTED, PLAN, REPORT_HTML, RunStore

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from airflow.sdk import Context

    from batchmark.alerts.outbox import RunMessage
    from batchmark.alerts.records import Alert
    from batchmark.alerts.settings import AlertSettings
    from batchmark.alerts.store import AlertStore
    from batchmark.change_records import Change
    from batchmark.config import Config

TERMINAL_WIDTH = 160


def change_params() -> dict[str, Param]:
    """Fields of the form of change_alert."""
    from batchmark.alerts.records import BY_HAND

    return {
        "alert_id": Param(
            "", type="string", description="As the message or the report names it: 3f9a1c0b72."
        ),
        "state": Param(
            "acknowledged",
            enum=list(BY_HAND),
            description="acknowledged: somebody looks after it. invalid: nothing had changed. "
            "fixed: it should be gone. open: none of these after all.",
        ),
        "note": Param("", type="string", description="Why; kept with the alert."),
    }


def check_settings() -> None:
    """Whether alerts could be sent as they are set up; sends nothing.

    Raises:
        AlertError: the variable or a connection that it names can't be used.
    """
    from batchmark.alerts.sending import check_channels
    from batchmark.alerts.settings import load_settings

    check_channels(load_settings())


def open_alerts(context: Context, changes_key: str, report_key: str | None = None) -> list[str]:
    """Keep what is new in the run's changes, and its message; return the ids of its alerts.

    A retry finds the message and does only what it decided and is not done. Nothing is sent.
    """
    from rich.console import Console

    from batchmark.alerts.settings import load_settings
    from batchmark.alerts.store import AlertStore
    from batchmark.alerts.terminal import alert_table
    from batchmark.change_records import RunChanges

    config, run_id = load_config(), context["run_id"]
    store = RunStore.of(config, run_id)
    alerts = AlertStore(store)
    message = alerts.message(run_id)
    if message is None:
        changes = RunChanges.model_validate_json(store.read(changes_key)).changes
        message = _decide(config, load_settings(), store, alerts, run_id, changes, report_key)
    if message is None:
        print("Nothing new to tell.")
        return []
    alerts.apply(message)
    if message.opened:
        Console(width=TERMINAL_WIDTH).print(alert_table(message.opened, "Opened by this run"))
    print(message.text)
    return message.alert_ids


def publish_alerts(
    context: Context, alert_ids: Sequence[str] | None, report_key: str | None
) -> None:
    """Send the run's message, each channel by itself; nothing where there is none.

    The last task of a run: it fails where one before it left nothing.

    Args:
        alert_ids, report_key: None where open_alerts or publish_report failed.

    Raises:
        AlertError: a channel did not take it; a retry, or the DAG send_alerts, tries once more.
        AirflowFailException: after sending, where the run is not whole, or where it is unsure
            whether a channel has the message. The latter fails once: cleared, the task passes.
        AirflowSkipException: a dry run.
    """
    from batchmark.alerts.store import AlertStore
    from batchmark.run import RunPlan

    try:
        config = load_config()
    except ConfigError as error:
        raise AirflowFailException(str(error)) from error  # it would fail again
    store = RunStore.of(config, context["run_id"])
    alerts = AlertStore(store)
    message = alerts.message(context["run_id"])
    if message is None:
        print("Nothing to send.")
    else:
        # Whatever try of this task is not over died with it.
        _send(config, alerts, [message], longest_try=timedelta(0))
    if alert_ids is None or report_key is None:
        plan = store.read_if_there(store.prefix + PLAN)
        if plan and RunPlan.model_validate_json(plan).dry_run:
            raise AirflowSkipException("a dry run: nothing was measured")
        missing = "open_alerts" if alert_ids is None else "publish_report"
        raise AirflowFailException(f"the run is not whole; see {missing} and the tasks before it")


def announce_regressions(context: Context) -> None:
    """Make an event of the asset REGRESSIONS of the alerts that the run opened.

    Raises:
        AirflowSkipException: it opened none, so there is no event.
    """
    from batchmark.alerts.store import AlertStore, message_key

    message = AlertStore(RunStore.of(load_config(), context["run_id"])).message(context["run_id"])
    if message is None or not message.new_alerts:
        raise AirflowSkipException("this run opened no alert")
    told = regressions_metadata(message, message_key(message.run_id))
    context["outlet_events"][REGRESSIONS].extra = told


def change_alert(context: Context) -> str:
    """Bring an alert into the state that a person asks for; return its id.

    Raises:
        AirflowFailException: there is no such alert, or that state may not follow.
    """
    from rich.console import Console

    from batchmark.alerts.store import AlertStore
    from batchmark.alerts.terminal import alert_table

    params, run_id = context["params"], context["run_id"]
    by = context["dag_run"].triggering_user_name or "somebody"
    now = datetime.now(UTC)

    def asked_for(alert: Alert) -> Alert:
        return alert.become(params["state"], at=now, by=by, run_id=run_id, note=params["note"])

    try:
        alert = AlertStore(RunStore.of(load_config(), run_id)).change_alert(
            params["alert_id"].strip(), asked_for
        )
    except AlertError as error:
        raise AirflowFailException(str(error)) from error  # it would fail again
    Console(width=TERMINAL_WIDTH).print(alert_table([alert], "The alert now"))
    return alert.id


def send_pending(context: Context) -> None:
    """Send what quiet hours held, or what did not arrive, of all runs.

    Raises:
        AlertError: a channel still does not take a message.
        AirflowFailException: as of publish_alerts, once for each that is unsure.
    """
    from batchmark.alerts.delivering import LONGEST_TRY
    from batchmark.alerts.store import AlertStore

    config = load_config()
    alerts = AlertStore(RunStore.of(config, context["run_id"]))
    waiting = [one for one in alerts.messages() if one.of("pending", "failed", "sending")]
    for message in waiting:
        alerts.apply(message)  # where open_alerts died for good
    _send(config, alerts, waiting, longest_try=LONGEST_TRY)


def _decide(
    config: Config,
    settings: AlertSettings,
    store: RunStore,
    alerts: AlertStore,
    run_id: str,
    changes: Iterable[Change],
    report_key: str | None,
) -> RunMessage | None:
    """Create the message of a run; None if it has nothing new.

    What joins an older alert is no news, so it is kept at once: a retry finds nothing that joins.
    """
    from airflow.sdk.configuration import conf

    from batchmark.alerts.merging import merge
    from batchmark.alerts.message import Surroundings, build_message
    from batchmark.alerts.outbox import unsure_runs
    from batchmark.alerts.quiet_hours import held_until
    from batchmark.alerts.sending import channels_of

    now = datetime.now(UTC)
    before = alerts.alerts()
    merged = merge(before, alerts.improvements(), changes, settings, run_id=run_id, at=now)
    for joined in merged.joined:
        alerts.change_alert(joined.alert_id, methodcaller("join", joined))
    surroundings = Surroundings(
        installation=config.name,
        report_url=store.object_url(report_key or store.prefix + REPORT_HTML),
        log_urls=_log_urls(store),
        airflow_url=conf.get("api", "base_url", fallback=None),
        unsure_runs=unsure_runs(alerts.messages()),
    )
    message = build_message(
        merged,
        alerts.alerts() if merged.joined else before,
        surroundings,
        run_id=run_id,
        created_at=now,
        channels=channels_of(settings),
        hold_until=held_until(settings.quiet_hours, now),
    )
    return message and alerts.create(message)


def _log_urls(store: RunStore) -> dict[tuple[str, str], str]:
    """Of the run's jobs, by suite and target; of several repeats the first."""
    from batchmark.run import CollectedRun

    text = store.read_if_there(store.prefix + COLLECTED)
    jobs = CollectedRun.model_validate_json(text).jobs if text else ()
    return {(job.planned.suite, job.planned.target): job.log_url for job in reversed(jobs)}


def _send(
    config: Config, alerts: AlertStore, messages: Iterable[RunMessage], *, longest_try: timedelta
) -> None:
    """Send messages, unless it is quiet; tell how far each came.

    Raises:
        AlertError: a channel did not take one.
        AirflowFailException: it is unsure whether a channel did, and no task failed of it before.
    """
    from batchmark.alerts.delivering import deliver
    from batchmark.alerts.quiet_hours import held_until
    from batchmark.alerts.sending import channels_of, send
    from batchmark.alerts.settings import load_settings
    from batchmark.alerts.terminal import delivery_lines

    settings = load_settings()
    channels = channels_of(settings)
    failed, unsure = [], []
    for message in messages:
        now = datetime.now(UTC)
        if until := held_until(settings.quiet_hours, now):
            told = alerts.change_message(message.run_id, methodcaller("held", until))
        else:
            told = deliver(
                alerts,
                message.run_id,
                partial(send, config),
                channels=channels,
                now=now,
                longest_try=longest_try,
            )
            failed += [
                f"run {told.run_id}, {one.channel}: {one.reason}"
                for one in told.of("failed")
                if one.channel in channels
            ]
        if any(not one.shown for one in told.of("unsure")):
            unsure.append(told)
        print(f"Message of run {told.run_id}:", *delivery_lines(told), sep="\n  ")
    if failed:
        raise AlertError("not all was sent: " + "; ".join(failed))
    for message in unsure:
        alerts.change_message(message.run_id, methodcaller("with_unsure_shown"))
    if unsure:
        where = (
            f"run {message.run_id}, {one.channel}: {one.reason}"
            for message in unsure
            for one in message.of("unsure")
            if not one.shown
        )
        raise AirflowFailException(
            "a message may not have arrived, and is not sent again; look into the channel, and "
            "read the run's report if it is not there: " + "; ".join(where)
        )
