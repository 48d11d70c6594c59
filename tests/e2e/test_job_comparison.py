"""Jobs that run already, compared with what Terraform's stack `job_comparison` makes alone."""

import json
from contextlib import closing

import pytest

from batchmark.core.names import DAG_TAG, INSTALLATION_TAG, RUN_ID_TAG, RUN_TAG, slug
from laptop.aws import AwsClients
from laptop.session import Clock
from laptop.stack import ROOT, STACKS, Ports, init_one_at_a_time
from tests.e2e.own_job_runs import figures, report_of_run
from tests.e2e.privileges import airflow_statements, allows, needs, with_the_resources_tags
from tests.e2e.stacks import JOB_DIR, VCPUS, at_once, jobs, store_of, told_by
from tests.faults.targets import make_queue
from tests.lean_stack import LeanStack
from tests.stand_ins.diagnosis_answers import container
from tests.waiting import wait_for

COMPARISON, GUARD = "job_comparison", "leak_guard"
LIVE = ("SUBMITTED", "PENDING", "RUNNABLE", "STARTING", "RUNNING")
SIZES = (1, 2)
FOR_EVER = "import time; time.sleep(3600)"
# Each queue's instance type; the prices of both are committed.
SIDES = {"old": "m5.2xlarge", "new": "c5.2xlarge"}
ACCOUNT = "arn:aws:batch:us-east-1:123456789012"
STACK = "job_comparison"
INSTALLATION = "comparison"
# Its profile stands beside the core stack; alone, Airflow reads its variable.
INPUTS = {
    "airflow_variables_prefix": "/airflow/variables",
    "job_queue_arns": [f"{ACCOUNT}:job-queue/their-{name}" for name in SIDES],
    "job_definition_arns": [f"{ACCOUNT}:job-definition/their-{name}" for name in SIDES],
    "log_group_names": ["/aws/batch/job"],
}


class ComparisonStack(LeanStack):
    """Terraform's stack `job_comparison` instead of the core stack."""

    def __init__(self, folder):
        super().__init__(folder, Ports(), Clock().say, job_dir=JOB_DIR, vcpus=VCPUS)
        self.terraform = self.terraform_of(STACK)

    def apply(self):
        init_one_at_a_time(self.terraform)
        self.terraform.apply(var_file=STACKS / STACK / "local.tfvars", variables=INPUTS)

    def run(self, dag_id, conf):
        """Run a DAG to its end, in Airflow's own runner; its run id and state."""
        # It reads all DAGs of its folder at each run.
        dags = self.folder / "dags"
        dags.mkdir(exist_ok=True)
        (dags / f"{dag_id}.py").symlink_to(ROOT / "dags" / f"{dag_id}.py")
        env = self.processes.env | {
            "AIRFLOW__CORE__DAGS_FOLDER": str(dags),
            "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{self.folder}/airflow.db",
        }
        told, _ = told_by("tests.e2e.one_dag", dag_id, json.dumps(conf), **env)
        return told


class Existing:
    """Queues and job definitions of somebody else, and jobs that run in one of the queues."""

    def __init__(self, aws):
        self.batch = aws.client("batch")
        ec2, iam = aws.client("ec2"), aws.client("iam")
        iam.create_instance_profile(InstanceProfileName="theirs")
        network = {
            "subnets": [ec2.describe_subnets()["Subnets"][0]["SubnetId"]],
            "securityGroupIds": [ec2.describe_security_groups()["SecurityGroups"][0]["GroupId"]],
        }
        self.queues = {name: self.queue(name, kind, network) for name, kind in SIDES.items()}
        self.sides = [
            self.side("old", ["python", "work.py", "sweep", "Ref::size"], vcpus=1),
            self.side("new", ["python", "work.py", "sweep", "Ref::size"], vcpus=2),
        ]
        self.own = [self.submit("theirs")]

    def queue(self, name, instance_type, network):
        resources = {
            "type": "EC2",
            "minvCpus": 0,
            "maxvCpus": 64,
            "instanceTypes": [instance_type],
            "instanceRole": "theirs",
        }
        return make_queue(self.batch, f"their-{name}", resources | network)

    def side(self, name, command, vcpus=1):
        self.batch.register_job_definition(
            jobDefinitionName=f"their-{name}",
            type="container",
            containerProperties={
                **container(vcpus, 256, 0, "registry.example.com/theirs/work:7"),
                "command": command,
            },
            parameters={"size": "1"},
            timeout={"attemptDurationSeconds": 120},
        )
        return {"name": name, "job_queue": f"their-{name}", "job_definition": f"their-{name}"}

    def submit(self, name, **more):
        """A job that runs for longer than all tests here."""
        return self.batch.submit_job(
            jobName=name,
            jobQueue=self.queues["old"],
            jobDefinition="their-old",
            containerOverrides={"command": ["python", "-c", FOR_EVER]},
            timeout={"attemptDurationSeconds": 3600},
            **more,
        )["jobId"]

    def status(self, job_id):
        return self.batch.describe_jobs(jobs=[job_id])["jobs"][0]["status"]


@pytest.fixture(scope="module")
def stack(tmp_path_factory):
    with at_once(ComparisonStack(tmp_path_factory.mktemp("comparison"))) as running:
        running.start_cloud()
        running.apply()
        yield running


@pytest.fixture(scope="module")
def aws(stack):
    with closing(AwsClients(stack.aws)) as clients:
        yield clients


@pytest.fixture(scope="module")
def theirs(aws):
    """A job of theirs runs before, during and after the comparison."""
    made = Existing(aws)
    yield made
    for job_id in made.own:
        made.batch.terminate_job(jobId=job_id, reason="the tests are over")


@pytest.fixture(scope="module")
def compared(stack, theirs):
    """The run id of a comparison that ended well."""
    sides = {"name": "theirs", "sides": theirs.sides}
    sweep = {"parameter": "size", "sizes": SIZES, "repeats": 1}
    run_id, state = stack.run(COMPARISON, sides | sweep)
    assert state == "success"
    return run_id


@pytest.fixture(scope="module")
def guarded(stack, aws, theirs, compared):
    """The guard's state after it looked at a job of ours that leaked, and one of theirs like it."""
    ours = next(job["jobName"] for job in jobs(aws) if job["jobId"] not in theirs.own)
    theirs.own.append(theirs.submit(ours))
    tags = {
        INSTALLATION_TAG: INSTALLATION,
        RUN_TAG: slug(compared),
        RUN_ID_TAG: compared,
        DAG_TAG: COMPARISON,
    }
    leaked = theirs.submit(ours, tags=tags)
    for job_id in (theirs.own[-1], leaked):
        wait_for(lambda job_id=job_id: theirs.status(job_id) == "RUNNING", "start of a job")
    conf = {"grace_minutes": 0, "idle_minutes": 0, "end_leaks": ["jobs", "instances"]}
    return {"state": stack.run(GUARD, conf)[1], "leaked": leaked}


def test_each_side_is_measured_at_each_size(aws, compared):
    found = figures(report_of_run(aws, compared))
    assert set(found) == {(side, size) for side in ("old", "new") for size in SIZES}
    # The two queues' first jobs ran one size more.
    assert sorted(figure.jobs for figure in found.values()) == [1, 1, 2, 2]


def test_its_worst_case_is_priced_by_what_the_queues_have(aws, compared):
    store = store_of(aws, compared)
    plan = store.plan()
    assert {job.target: job.instance_type for job in plan.jobs} == {
        "old": "m5.2xlarge",
        "new": "c5.2xlarge",
    }
    revisions = {job.own_job.job_definition.rpartition("/")[2] for job in plan.jobs}
    assert revisions == {"their-old:1", "their-new:1"}
    assert plan.worst_case.usd > 0


def test_it_leaves_nothing_and_touches_nothing_of_others(aws, compared, theirs):
    assert {job["jobId"] for job in jobs(aws) if job["status"] in LIVE} == set(theirs.own)
    assert {theirs.status(job_id) for job_id in theirs.own} == {"RUNNING"}
    queues = theirs.batch.describe_job_queues(jobQueues=list(theirs.queues.values()))["jobQueues"]
    assert {queue["state"] for queue in queues} == {"ENABLED"}


def test_the_guard_ends_our_leak_in_their_queue_and_no_job_of_theirs(guarded, theirs):
    assert guarded["state"] == "failed"  # so that somebody sees it
    wait_for(lambda: theirs.status(guarded["leaked"]) == "FAILED", "end of the leak")
    assert {theirs.status(job_id) for job_id in theirs.own} == {"RUNNING"}


def test_airflow_is_allowed_all_that_these_runs_called(stack, aws, guarded):
    calls = [json.loads(line) for line in stack.calls.read_text().splitlines()]
    called = [call for call in calls if call["access_key_id"] == "airflow"]
    needed = {need for call in called for need in needs(with_the_resources_tags(call, aws))}
    assert {need.action for need in needed} >= {
        *("batch:SubmitJob", "batch:TerminateJob", "ecs:DescribeTasks"),
    }
    statements = airflow_statements(stack, aws)
    assert [need for need in needed if not allows(statements, need)] == []
