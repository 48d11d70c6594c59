"""`make demo`: runs the whole pipeline once from scratch, writes a report, and stops everything."""

from __future__ import annotations

import re
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, closing, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from batchmark.aws.result_bucket import REPORT_HTML, REPORT_JSON, RunStore
from batchmark.core.formatting import count
from batchmark.core.names import slug
from batchmark.core.output import say
from batchmark.core.suites import SUITES
from laptop import sample
from laptop.airflow import AirflowClient
from laptop.aws import AwsClients
from laptop.errors import FailedRunError, LaptopError
from laptop.processes import stop_all
from laptop.session import Clock, exclusive, refuse_beside_others
from laptop.stack import MULTI_NODE, MULTI_NODE_PROFILE, ROOT, SHARING_PROFILE, Ports, Stack

# Reports are imported where they are made: they load SciPy and charts for seconds, in which an
# error could already be shown, or a process stopped.
if TYPE_CHECKING:
    from batchmark.report.model import Report

DAG_ID = "gpu_cpu_benchmark"
SHARING_DAG_ID = "gpu_sharing_benchmark"
# What a CPU can show of sharing: as processes of one job, and as jobs that share an instance.
SHARING_RUN = {
    "modes": ["exclusive", "time_slicing"],
    "replicas": [1, 2, 5],
    "disturbances": ["crash", "slow"],
    "targets": ["g4dn.xlarge", "g4dn.2xlarge-shared"],
}
DISTRIBUTED_DAG_ID = "distributed_training_benchmark"
# What two cores can show: two nodes of one core each, small images, small batches.
DISTRIBUTED_RUN = {
    "node_counts": [1, 2],
    "batch": 4,
    "image": 64,
    "steps": 12,
    # An epoch is the whole image set, so that the learning rate rises and falls within the run.
    "learning_rate": 0.1,
    "images_per_epoch": 1024,
    "warmup_epochs": 0,
    "epochs": 2,
    "data": ["synthetic", "files"],
    "all_reduce_mib": [1, 16],
}
IMAGE_SET = {"count": 1024, "size": 96, "shards": 8, "classes": 10}
EXAMPLE = "published.html"
RUN_SECONDS = 4 * 3600
ENDED_STATES = ("success", "failed", "upstream_failed")
TOLD_STATES = (*ENDED_STATES, "up_for_retry")
PROGRESS = re.compile(r"\[(\d+)/(\d+)\] .*?(; about \d+ \w+ left)?")  # progress in a job's log
PROGRESS_SECONDS = 5.0  # between two progress lines of a job
LOG_CHARACTERS = 2000  # of a failed task: Airflow keeps the rest
LOG_WIDTH = 80  # table columns if output is not a terminal


def demo(suite: str, folder: Path) -> None:
    """Run `suite` once on every target; write the report and the sample pages to `folder`.

    Raises:
        LaptopError: the demo can't start, or the run failed.
    """
    if suite not in SUITES:
        raise LaptopError(f"unknown suite {suite!r}; known: {', '.join(SUITES)}")
    example = folder / EXAMPLE

    def write_example(_: Stack) -> None:
        from batchmark.report.page import page_html
        from batchmark.report.pages.published_page import published_page

        example.write_text(page_html(published_page()))

    more = f"published GPU figures: {example}\n"
    first = folder / sample.FOLDER / sample.FIRST
    conf, clock = {"suite": suite}, Clock()
    run_once(
        folder,
        DAG_ID,
        conf,
        clock,
        meanwhile=lambda stack: sample.sample_beside(stack.folder, stack.processes.env, clock.say),
        after=write_example,
        more=more,
    )
    say(f"sample pages for a made-up year, with trends, alerts and costs: {first}")


def demo_sharing(folder: Path) -> None:
    """Run a GPU-sharing benchmark once and write the report to `folder`.

    Raises:
        LaptopError: the stack can't start, or the run failed.
    """
    run_once(folder, SHARING_DAG_ID, SHARING_RUN, Clock(), profile=SHARING_PROFILE)


def demo_distributed(folder: Path) -> None:
    """Train on one and two nodes with a temporary file system, and write the report to `folder`.

    Raises:
        LaptopError: the stack can't start, the run failed, or the file system was not removed.
    """
    run_once(
        folder,
        DISTRIBUTED_DAG_ID,
        DISTRIBUTED_RUN,
        Clock(),
        before=make_images,
        after=refuse_file_systems,
        profile=MULTI_NODE_PROFILE,
        beside=(MULTI_NODE,),
    )


def make_images(stack: Stack) -> None:
    """Upload synthetic images to the location that the file system imports from."""
    with closing(AwsClients(stack.aws)) as aws:
        folder = aws.multi_node().file_system.repository
    images, size = IMAGE_SET["count"], IMAGE_SET["size"]
    stack.say(f"data: writing {images} images of {size} x {size} pixels to {folder}")
    options = [word for name, value in IMAGE_SET.items() for word in (f"--{name}", str(value))]
    stack.processes.run(
        "images",
        [sys.executable, "-m", "batchmark_job", "images", *options, "--to", folder],
        cwd=ROOT / "job_container",
        env=stack.aws,
    )


def refuse_file_systems(stack: Stack) -> None:
    """Raise LaptopError if the run left a file system behind."""
    with closing(AwsClients(stack.aws)) as aws:
        left = aws.client("fsx").describe_file_systems()["FileSystems"]
    if left:
        names = ", ".join(each["FileSystemId"] for each in left)
        raise LaptopError(f"the run left file systems behind in the local cloud: {names}")
    stack.say("the file system has been removed completely")


def run_once(
    folder: Path,
    dag_id: str,
    conf: Mapping[str, Any],
    clock: Clock,
    *,
    meanwhile: Callable[[Stack], AbstractContextManager[None]] | None = None,
    before: Callable[[Stack], None] | None = None,
    after: Callable[[Stack], None] | None = None,
    more: str = "",
    runs: int = 1,
    **options: Any,
) -> None:
    """Start a stack, run a DAG on it, and stop it; write the report to `folder` and show it.

    Args:
        meanwhile: called with the stack; returns a context manager entered while the stack starts.
        before, after: called with the stack, before the first run and after each run.
        more: lines to print with the locations of the results.
        runs: number of runs, one after the other; only the last one is shown.
        options: arguments for Stack.

    Raises:
        LaptopError: the stack can't start, or a run failed.
    """
    stack, failure = Stack(folder, Ports(), clock.say, **options), ""
    with exclusive(stack.folder):
        refuse_beside_others(stack.folder)
        stack.check()
        stop_all(stack.folder)  # processes left by a killed run
        clock.say("everything runs on this machine; nothing reaches AWS or costs money")
        with stack:
            with meanwhile(stack) if meanwhile else nullcontext():
                stack.start()
            if before:
                before(stack)
            for left in reversed(range(runs)):
                began = time.monotonic()
                try:
                    report = run_benchmark(stack, conf, clock, dag_id)
                except FailedRunError as error:
                    report, failure = error.report, str(error)
                if after:
                    after(stack)
                if left:
                    minutes = round(left * (time.monotonic() - began) / 60) or 1
                    clock.say(f"{count(left, 'more run')}: about {count(minutes, 'minute')}")
    show(report, folder, more)
    if failure:
        raise LaptopError(failure)
    clock.say("done")


def show(report: Report, folder: Path, more: str) -> None:
    """Print a run's tables, its summary and the location of its results."""
    from rich.console import Console

    from batchmark.report.answer import first_screen
    from batchmark.report.pages.run_page import run_page
    from batchmark.report.terminal.sections import print_page

    print_page(run_page(report), Console(width=None if sys.stdout.isatty() else LOG_WIDTH))
    answer = first_screen(report).stories[0].answers[0]
    files = [f"report: {folder / REPORT_HTML}", f"        {folder / REPORT_JSON}"]
    files += [
        f"result documents from {target.name}, for `batchmark compare`: {target}"
        for target in sorted((folder / "raw" / slug(report.run_id)).glob("*/"))
    ]
    for line in ("", *answer.lines, "", *files):
        say(line)
    print(f"{more}files under runs/ and raw/ are in the bucket; copies are in {folder}")


def run_benchmark(
    stack: Stack, conf: Mapping[str, Any], clock: Clock, dag_id: str = DAG_ID
) -> Report:
    """Trigger a DAG, follow the run until it ends, and copy its report out of the local cloud.

    Raises:
        FailedRunError: some of the run's jobs failed; its report says why.
        LaptopError: the run failed otherwise or took too long, or a program of the stack ended.
    """
    with AirflowClient(stack.airflow) as airflow, closing(AwsClients(stack.aws)) as aws:
        airflow.wait_for_dag(dag_id)
        airflow.unpause(dag_id)
        run_id = airflow.trigger(dag_id, conf)
        options = dict(conf)
        if "sides" in conf:  # by name: their definitions fill half a screen
            options["sides"] = [side["name"] for side in conf["sides"]]
        clock.say(f"Airflow: DAG run {run_id} of {dag_id} started with {options}")
        config = aws.config()
        log_lines = aws.new_log_lines(str(config.log_group))
        next(log_lines)  # skip lines of earlier runs
        tasks = TaskStates(airflow, dag_id, run_id)
        jobs = JobProgress()
        deadline = time.monotonic() + RUN_SECONDS
        while True:
            stack.processes.check()
            state = airflow.state(dag_id, run_id)
            for line in (*tasks.ended(), *jobs.lines_to_show(next(log_lines))):
                clock.say(line)
            if state in ("success", "failed"):
                break
            if time.monotonic() > deadline:
                raise LaptopError(f"DAG run {run_id} is still {state} after {RUN_SECONDS} s")
            time.sleep(1)
        from batchmark.report.failures import in_short
        from laptop.report_copy import copy_run

        store = RunStore(aws.client("s3"), config.bucket, run_id)
        if state == "success":
            return copy_run(store, stack.folder, stack.jobs_file)
        failures = f"DAG run {run_id} failed"
        if store.read_if_there(store.prefix + REPORT_JSON) is not None:
            report = copy_run(store, stack.folder, stack.jobs_file)
            if report.failed:
                raise FailedRunError(
                    f"{failures} because of failed jobs:\n{in_short(report.failed, report.lost)}",
                    report,
                )
            failures += f"; the partial report is in {stack.folder / REPORT_HTML}"
        raise LaptopError(f"{failures}:\n{tasks.failures()}")


class JobProgress:
    """Condenses the jobs' logs for the terminal; the full logs are copied with the report."""

    def __init__(self) -> None:
        self._told_at: dict[str, float] = {}  # by target

    def lines_to_show(self, lines: Iterable[str]) -> Iterator[str]:
        """Yield batchmark-job's messages and, at most every few seconds, each target's progress."""
        newest: dict[str, str] = {}
        for line in lines:
            target, _, text = line.partition(": ")
            if text.startswith("batchmark-job: "):
                yield line
            elif found := PROGRESS.fullmatch(text):
                done, rows, left = found.groups(default="")
                newest[target] = f"{target}: {done} of {rows} rows measured{left}"
        now = time.monotonic()
        for target, progress in newest.items():
            if now - self._told_at.get(target, -PROGRESS_SECONDS) >= PROGRESS_SECONDS:
                self._told_at[target] = now
                yield progress


class TaskStates:
    """Follows the states of a DAG run's tasks."""

    def __init__(self, airflow: AirflowClient, dag_id: str, run_id: str) -> None:
        self._airflow = airflow
        self._dag_id, self._run_id = dag_id, run_id
        self._seen: dict[str, str] = {}

    def ended(self) -> list[str]:
        """Return a line for each task that has newly succeeded, failed or come up for retry.

        Of a mapped task, it also says how many have ended.
        """
        lines = []
        tasks = self._airflow.task_instances(self._dag_id, self._run_id)
        mapped = Counter(task["task_id"] for task in tasks)
        ended = Counter(task["task_id"] for task in tasks if task["state"] in ENDED_STATES)
        for task in tasks:
            name, state, task_id = _name(task), str(task["state"]), task["task_id"]
            if self._seen.get(name) != state and state in TOLD_STATES:
                how_far = f" ({ended[task_id]} of {mapped[task_id]})" if mapped[task_id] > 1 else ""
                lines.append(f"Airflow: {name} {state}{how_far}")
            self._seen[name] = state
        return lines

    def failures(self) -> str:
        return "\n".join(
            f"{_name(task)}: {end_of_log(self._airflow.task_log(task))}"
            for task in self._airflow.task_instances(self._dag_id, self._run_id)
            if task["state"] == "failed"
        )


def end_of_log(log: str, characters: int = LOG_CHARACTERS) -> str:
    """Return a log's last whole lines, without the marks that let Airflow's UI fold lines."""
    lines = [one for one in log.splitlines() if not one.startswith(("::group::", "::endgroup::"))]
    whole = "\n".join(lines)
    if len(whole) <= characters:
        return whole
    end = whole[-characters:]
    return end.partition("\n")[2] or end


def _name(task: Mapping[str, Any]) -> str:
    label = task.get("rendered_map_index") or task["map_index"]
    return task["task_id"] if task["map_index"] < 0 else f"{task['task_id']}[{label}]"
