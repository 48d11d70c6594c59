"""Stacks for tests."""

import json
from contextlib import closing

from batchmark.aws.result_bucket import RunStore
from laptop.aws import AwsClients
from laptop.session import Clock
from laptop.stack import ROOT, TERRAFORM_DATA, Ports, Stack, aws_environment
from laptop.terraform import find_provider_mirror
from tests.documented import typed
from tests.waiting import wait_for


def open_stack(folder):
    """A stack on free ports, of which nothing is started yet; leaving its context ends it."""
    return Stack(folder, Ports(), Clock().say)


def wait_for_end(airflow, dag_id, run_id, seconds=540):
    def state():
        state = airflow.state(dag_id, run_id)
        return state if state in ("success", "failed") else None

    return wait_for(state, f"end of DAG run {run_id}", seconds, every=1)


def run_dag(airflow, dag_id, conf):
    """Run a DAG to its end; its run id and state."""
    airflow.wait_for_dag(dag_id)
    airflow.unpause(dag_id)
    run_id = airflow.trigger(dag_id, conf)
    return run_id, wait_for_end(airflow, dag_id, run_id)


def newest_run(airflow, dag_id):
    (run,) = airflow._get(f"/dags/{dag_id}/dagRuns?order_by=-run_after&limit=1")["dag_runs"]
    return run["dag_run_id"]


def store_of(aws, run_id):
    return RunStore(aws.client("s3"), aws.config().bucket, run_id)


def failed_log(airflow, dag_id, run_id, task_id):
    """The log of a run's only failed task of that name."""
    (task,) = [
        task
        for task in airflow.task_instances(dag_id, run_id)
        if task["task_id"] == task_id and task["state"] == "failed"
    ]
    return airflow.task_log(task)


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


class InAccount(Stack):
    """In an account of its own on the local cloud of another stack; `stop` leaves that running."""

    def __init__(self, folder, cloud, account):
        folder.mkdir(parents=True, exist_ok=True)
        self._key = _key_of(cloud, account)
        super().__init__(folder, Ports(cloud=cloud._cloud_port), Clock().say)

    def aws_as(self, principal):
        """The account's only user, whatever the principal is called."""
        return aws_environment(
            self.endpoint, self._key["AccessKeyId"], self._key["SecretAccessKey"]
        )


def _key_of(cloud, account):
    """A lasting key: it alone says which account a call is for."""
    with closing(AwsClients(cloud)) as aws:
        sts = aws.client("sts")
        role = f"arn:aws:iam::{account}:role/tests"
        login = sts.assume_role(RoleArn=role, RoleSessionName="tests")["Credentials"]
        iam = aws.session.client(
            "iam",
            endpoint_url=cloud.endpoint,
            aws_access_key_id=login["AccessKeyId"],
            aws_secret_access_key=login["SecretAccessKey"],
            aws_session_token=login["SessionToken"],
        )
        iam.create_user(UserName="tests")
        return iam.create_access_key(UserName="tests")["AccessKey"]
