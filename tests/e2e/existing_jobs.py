"""An account in which others run jobs, with queues that Terraform did not make."""

import json
from contextlib import contextmanager

from laptop.session import Clock
from laptop.stack import ROOT, STACKS, Ports, init_one_at_a_time
from tests.e2e.programs import told_by
from tests.e2e.stacks import JOB_DIR, VCPUS, at_once
from tests.faults.targets import make_queue
from tests.lean_stack import LeanStack
from tests.stand_ins.diagnosis_answers import container

FOR_EVER = "import time; time.sleep(900)"
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


@contextmanager
def comparison_stack(folder):
    with at_once(ComparisonStack(folder)) as stack:
        stack.start_cloud()
        stack.apply()
        yield stack


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
