"""The operators that stand a run's file system up and collapse it: a DAG's setup and teardown."""

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
from botocore.exceptions import BotoCoreError, ClientError

from batchmark.aws.boto_clients import client
from batchmark.aws.result_bucket import PLAN, RunStore
from batchmark.core.config import Config
from batchmark.core.multi_node import COLLAPSE_SECONDS, STAND_UP_SECONDS, FileSystem
from batchmark.core.run import RunPlan
from batchmark.orchestration.batch_operator import generation
from batchmark.orchestration.file_system_trigger import BY_HAND, CollapseTrigger, StandUpTrigger
from batchmark.orchestration.settings import load_config, load_multi_node
from batchmark.orchestration.telling import tell
from batchmark.runs.run_file_system import RunFileSystem, RunOfDag

ENDING_SECONDS = 300  # for a trigger to end its task after its last limit
ENDED = "failed"  # the event of a trigger that has ended its task so


class FileSystemOperator(BaseOperator):
    """Hands its work to a trigger, which ends the task; no worker is held meanwhile."""

    def execute_complete(self, context: Context, event: Any = None) -> None:  # noqa: ARG002
        """Finish a task that its trigger has ended already; only `dag.test()` comes here."""
        if event == ENDED:
            raise AirflowFailException("see the trigger's log")

    def arguments(
        self, context: Context, config: Config, settings: FileSystem, seconds: float
    ) -> dict[str, Any]:
        """What both triggers take."""
        return {
            "region_name": config.region,
            "settings": settings.model_dump(mode="json"),
            "run": _run(context, config).model_dump(mode="json"),
            "deadline": time.time() + seconds,
        }


class StandUpFileSystem(FileSystemOperator):
    """Stands up the file system that the run's plan asks for, if it asks for one.

    It makes nothing itself: a worker that is lost has left nothing, and a triggerer that takes
    over finds what the one before has made. So it needs no retries, and one that failed has
    removed what it made.
    """

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**{"retries": 0} | kwargs)

    def execute(self, context: Context) -> None:
        config = load_config()
        store = RunStore.of(config, context["run_id"])
        plan = RunPlan.model_validate_json(store.read(store.prefix + PLAN))
        if plan.dry_run:
            raise AirflowSkipException("a dry run: nothing is stood up")
        if plan.file_system is None:
            settings = load_multi_node().file_system
            _file_system(context, config, settings).name_none()
            tell("The run reads no files, so no file system is stood up.")
            return
        self.defer(
            # The trigger ends the task in time; this is in case no triggerer runs.
            timeout=timedelta(seconds=STAND_UP_SECONDS + COLLAPSE_SECONDS + ENDING_SECONDS),
            trigger=StandUpTrigger(
                **self.arguments(context, config, plan.file_system, STAND_UP_SECONDS)
            ),
            method_name="execute_complete",
        )

    def resume_execution(
        self, next_method: str, next_kwargs: dict[str, Any] | None, context: Context
    ) -> Any:
        """Remove what a trigger has made that could not end the task."""
        try:
            return super().resume_execution(next_method, next_kwargs, context)
        except (TaskDeferralTimeout, TaskDeferralError) as error:
            config = load_config()
            file_system = _file_system(context, config, load_multi_node().file_system)
            try:
                waits = file_system.collapse()
            except (BotoCoreError, ClientError) as problem:
                waits = str(problem)
            left = f"{waits}. {BY_HAND}" if waits else "Nothing of it is there"
            raise AirflowFailException(
                f"No triggerer ended this task ({error}). Is a triggerer running? {left}."
            ) from error


class CollapseFileSystem(FileSystemOperator):
    """Lets nodes mount nothing, and deletes the file systems of the run, whatever became of it."""

    def execute(self, context: Context) -> None:
        config, nodes = load_config(), load_multi_node()
        self.defer(
            timeout=timedelta(seconds=COLLAPSE_SECONDS + ENDING_SECONDS),
            trigger=CollapseTrigger(
                bucket=config.bucket,
                environment=nodes.compute_environment,
                **self.arguments(context, config, nodes.file_system, COLLAPSE_SECONDS),
            ),
            method_name="execute_complete",
        )


def _run(context: Context, config: Config) -> RunOfDag:
    return RunOfDag(
        installation=config.name,
        dag_id=context["ti"].dag_id,
        run_id=context["run_id"],
        generation=generation(context),
    )


def _file_system(context: Context, config: Config, settings: FileSystem) -> RunFileSystem:
    fsx, ssm = client("fsx", config.region), client("ssm", config.region)
    return RunFileSystem(fsx, ssm, settings, _run(context, config))
