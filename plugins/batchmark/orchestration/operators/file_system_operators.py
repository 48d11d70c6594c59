"""Operators that create and delete a run's file system, as a DAG's setup and teardown."""

from __future__ import annotations

import time
from datetime import timedelta
from typing import Any

from airflow.sdk import BaseOperator, Context
from airflow.sdk.exceptions import (
    AirflowFailException,
    AirflowSkipException,
    TaskDeferralError,
    TaskDeferralTimeout,
)

from batchmark.aws.boto_clients import client
from batchmark.aws.result_bucket import RunStore
from batchmark.core.clusters.multi_node import (
    COLLAPSE_SECONDS,
    DELETION_SECONDS,
    NODES_SECONDS,
    STAND_UP_SECONDS,
    FileSystem,
)
from batchmark.core.config import Config
from batchmark.core.errors import ConfigError
from batchmark.core.run import RunPlan
from batchmark.orchestration.operators.batch_operator import generation
from batchmark.orchestration.operators.file_system_trigger import (
    BY_HAND,
    CollapseTrigger,
    StandUpTrigger,
    removed,
)
from batchmark.orchestration.operators.turns import is_over
from batchmark.orchestration.settings import load_config, load_multi_node
from batchmark.orchestration.telling import tell
from batchmark.orchestration.xcom import JOB_TASKS, states_of
from batchmark.runs.run_file_system import RunFileSystem, RunOfDag

ENDING_SECONDS = 300  # for a trigger to end its task after its last limit
ENDED = "failed"  # the event of a trigger that has ended its task so


class FileSystemOperator(BaseOperator):
    """Defers to a trigger that ends the task, so that waiting doesn't occupy a worker."""

    def execute_complete(self, context: Context, event: Any = None) -> None:  # noqa: ARG002
        """Finish a task that its trigger has already ended; only `dag.test()` calls this."""
        if event == ENDED:
            raise AirflowFailException("the trigger failed; see its log")

    def arguments(
        self, context: Context, config: Config, plan: RunPlan, seconds: float
    ) -> dict[str, Any]:
        """Return the arguments common to both triggers."""
        settings = plan.file_system
        return {
            "region_name": config.region,
            "bucket": config.bucket,
            "environment": plan.compute_environment,
            "settings": settings.model_dump(mode="json") if settings else None,
            "run": _run(context, config).model_dump(mode="json"),
            "deadline": time.time() + seconds,
        }


class StandUpFileSystem(FileSystemOperator):
    """Creates the file system that the run's plan needs, if it needs one.

    Only the trigger creates anything, so a lost worker leaves nothing behind, and a triggerer that
    takes over finds what the previous one created. The task therefore needs no retries. If it
    fails, everything that was created is removed.
    """

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**{"retries": 0} | kwargs)

    def execute(self, context: Context) -> None:
        config = load_config()
        plan = _plan(context, config)
        if plan.dry_run:
            raise AirflowSkipException("this is a dry run, so no file system is created")
        if plan.file_system is None:
            settings = load_multi_node().file_system
            _file_system(context, config, settings).name_none()
            tell("The run reads no files, so no file system is created.")
            return
        if is_over(states_of(context, *JOB_TASKS)):
            # Airflow clears a setup with any task before its teardown.
            tell("None of the run's jobs will run, so no file system is created.")
            return
        self.defer(
            # The trigger ends the task in time; this is in case no triggerer runs.
            timeout=timedelta(
                seconds=STAND_UP_SECONDS + NODES_SECONDS + DELETION_SECONDS + ENDING_SECONDS
            ),
            trigger=StandUpTrigger(**self.arguments(context, config, plan, STAND_UP_SECONDS)),
            method_name="execute_complete",
        )

    def resume_execution(
        self, next_method: str, next_kwargs: dict[str, Any] | None, context: Context
    ) -> Any:
        """If the trigger couldn't end the task, remove what it created."""
        try:
            return super().resume_execution(next_method, next_kwargs, context)
        except (TaskDeferralTimeout, TaskDeferralError) as error:
            config = load_config()
            plan = _known(_plan(context, config))
            waits = removed(_file_system(context, config, plan.file_system))
            left = f"{waits}. {BY_HAND}" if waits else "No file system is left"
            raise AirflowFailException(
                f"No triggerer ended this task ({error}). Check that a triggerer is running. "
                f"{left}."
            ) from error


class CollapseFileSystem(FileSystemOperator):
    """Deletes the run's file systems, however the run ended, once nodes can't mount them any more.

    It uses the settings in the plan or, failing that, those that the stack publishes. Without
    either, it still deletes the file systems.
    """

    def execute(self, context: Context) -> None:
        config = load_config()
        plan = _known(_plan(context, config))
        self.defer(
            timeout=timedelta(seconds=COLLAPSE_SECONDS + ENDING_SECONDS),
            trigger=CollapseTrigger(**self.arguments(context, config, plan, COLLAPSE_SECONDS)),
            method_name="execute_complete",
        )


def _plan(context: Context, config: Config) -> RunPlan:
    return RunStore.of(config, context["run_id"]).plan()


def _known(plan: RunPlan) -> RunPlan:
    """Return the plan, with the stack's file system settings if it has none of its own."""
    if plan.file_system:
        return plan
    try:
        nodes = load_multi_node()
    except ConfigError as error:
        tell(f"The file system's settings can't be read: {error}")
        return plan
    update = {"file_system": nodes.file_system, "compute_environment": nodes.compute_environment}
    return plan.model_copy(update=update)


def _run(context: Context, config: Config) -> RunOfDag:
    return RunOfDag(
        installation=config.name,
        dag_id=context["ti"].dag_id,
        run_id=context["run_id"],
        generation=generation(context),
    )


def _file_system(context: Context, config: Config, settings: FileSystem | None) -> RunFileSystem:
    fsx, ssm = client("fsx", config.region), client("ssm", config.region)
    return RunFileSystem(fsx, ssm, settings, _run(context, config))
