"""Stacks for tests."""

import json
import os
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

from batchmark.aws.result_bucket import RunStore
from laptop.session import Clock
from laptop.stack import ROOT, TERRAFORM_DATA, Ports
from laptop.terraform import find_provider_mirror
from tests.clouds import control_of
from tests.documented import typed
from tests.lean_stack import LeanStack
from tests.waiting import PATIENCE_SECONDS, wait_for

HERE = Path(__file__).parent
# What the jobs' images hold: the real job, which measures for a moment only, and one of somebody.
JOB_DIR = HERE / "quick_job"
# So that the jobs of several runs go side by side: nothing here depends on their times.
VCPUS = 12
PARAMETER = "/airflow/variables/batchmark"


def open_stack(folder):
    """A stack on free ports, of which nothing is started yet; leaving its context ends it."""
    return LeanStack(folder, Ports(), Clock().say)


@contextmanager
def fault(stack, **asked):
    """A fault of the stack's local cloud, until the block ends."""
    with control_of(stack.endpoint, stack.aws["AWS_SECRET_ACCESS_KEY"]) as control:
        begun = control.post("/_faults", json=asked).raise_for_status().json()
        yield
        control.delete(f"/_faults/{begun['id']}").raise_for_status()


def wait_for_end(airflow, dag_id, run_id):
    def state():
        state = airflow.state(dag_id, run_id)
        return state if state in ("success", "failed") else None

    return wait_for(state, f"end of DAG run {run_id}", every=1)


def at_once(stack):
    """Let what Airflow tries again come at once, and several runs of a DAG overlap."""
    env = stack.processes.env
    env["PYTHONPATH"] = f"{HERE / 'airflow_settings'}:{env['PYTHONPATH']}:{ROOT}"
    return stack


def begin(airflow, dag_id, conf):
    """Trigger a DAG; its run id."""
    airflow.wait_for_dag(dag_id)
    airflow.unpause(dag_id)
    return airflow.trigger(dag_id, conf)


def run_dag(airflow, dag_id, conf, state="success"):
    """Run a DAG to its end, in this state; its run id."""
    run_id = begin(airflow, dag_id, conf)
    assert wait_for_end(airflow, dag_id, run_id) == state
    return run_id


def run_all(airflow, asked):
    """Run DAGs side by side, each by its name with its form; their run ids and states."""
    begun = {name: begin(airflow, dag_id, conf) for name, (dag_id, conf) in asked.items()}
    return {
        name: (run_id, wait_for_end(airflow, asked[name][0], run_id))
        for name, run_id in begun.items()
    }


def store_of(aws, run_id):
    return RunStore(aws.client("s3"), aws.config().bucket, run_id)


def jobs(aws):
    """Summaries of every job of every queue."""
    batch = aws.client("batch")
    every = [{"name": "JOB_NAME", "values": ["*"]}]
    return [
        job
        for queue in batch.describe_job_queues()["jobQueues"]
        for job in batch.list_jobs(jobQueue=queue["jobQueueArn"], filters=every)["jobSummaryList"]
    ]


def job_ids(aws):
    return {job["jobId"] for job in jobs(aws)}


class Published:
    """What Airflow is told of the installation: `config`, which may be changed and written."""

    def __init__(self, ssm):
        self._ssm = ssm
        self._before = ssm.get_parameter(Name=PARAMETER)["Parameter"]["Value"]
        self.config = json.loads(self._before)

    def write(self):
        self._put(json.dumps(self.config))

    def undo(self):
        self._put(self._before)

    def _put(self, text):
        self._ssm.put_parameter(Name=PARAMETER, Value=text, Type="String", Overwrite=True)


@contextmanager
def published_by(aws):
    """What Terraform published; what is written instead of it is undone in the end."""
    found = Published(aws.client("ssm"))
    try:
        yield found
    finally:
        found.undo()


def failed_log(airflow, dag_id, run_id, task_id, says):
    """The log of a run's only failed task of that name, once it says this.

    The triggerer may write a log's last lines after the task's state.
    """
    tasks = airflow.instances(dag_id, run_id, task_id)
    (task,) = [task for task in tasks if task["state"] == "failed"]

    def log():
        said = airflow.task_log(task)
        return said if says in said else None

    return wait_for(log, f"{says!r} in the log of {task_id}")


def type_beside(stack, command, folder, **placeholders):
    """What a documented command prints in a shell that reaches this stack, from this folder."""
    env = {
        **stack.processes.env,
        **stack.aws,
        "TF_CLI_ARGS_output": f"-state={stack.terraform.state}",
        "COLUMNS": "300",
    }
    return typed(command, folder, env, **placeholders)


def type_terraform(stack, command, folder=ROOT / "terraform", var_file=None, **variables):
    """What documented commands of Terraform print that change this stack."""
    given = stack.folder / "typed.tfvars.json"
    given.write_text(json.dumps({"local_cloud": True} | variables))
    lock_file = ROOT / "terraform" / ".terraform.lock.hcl"
    mirror = find_provider_mirror(lock_file, stack.terraform._binary.platform)
    everywhere = f"-state={stack.terraform.state} -no-color"
    files = "".join(f" -var-file={file}" for file in (var_file, given) if file)
    env = {
        **stack.processes.env,
        **stack.aws_as("terraform"),
        "TF_DATA_DIR": str(stack.folder / "typed"),  # nobody else runs `init` in it
        "TF_PLUGIN_CACHE_DIR": str(TERRAFORM_DATA / "providers"),
        "TF_IN_AUTOMATION": "1",
        "CHECKPOINT_DISABLE": "1",
        "TF_CLI_ARGS_init": "-lockfile=readonly" + (f" -plugin-dir={mirror}" if mirror else ""),
        "TF_CLI_ARGS_plan": f"{everywhere} -input=false{files}",
        "TF_CLI_ARGS_apply": f"{everywhere} -input=false{files} -auto-approve",
        "TF_CLI_ARGS_destroy": f"{everywhere} -input=false{files} -auto-approve",
        "TF_CLI_ARGS_output": everywhere,
    }
    return typed(command, folder, env)


def told_by(module, *arguments, **env):
    """What a module prints as a program: the last line, which is JSON, and all of it.

    Airflow reads its settings at its first import, so a run in Airflow's own runner is a program.
    """
    done = subprocess.run(
        [sys.executable, "-m", module, *map(str, arguments)],
        cwd=ROOT,
        env=os.environ | env,
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-5000:]
    return json.loads(done.stdout.splitlines()[-1]), done.stdout
