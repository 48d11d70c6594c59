"""Jobs that were not written for Batchmark: Terraform's own ones, and those that run already."""

import json
from contextlib import closing
from pathlib import Path

import pytest

from batchmark.aws.result_bucket import PLAN, REPORT_HTML, REPORT_JSON
from batchmark.core.run import RunPlan
from batchmark.report.model import Report
from batchmark_job.result import parse_document
from batchmark_job.result_own_job import METRIC
from laptop.airflow import AirflowClient
from laptop.aws import AwsClients
from laptop.session import Clock
from laptop.stack import Ports, Stack
from tests.e2e.own_jobs.work import FAILS, LOUD, MALFORMED, MARK, WRONG
from tests.e2e.stacks import failed_log, run_dag, store_of, wait_for_end
from tests.waiting import wait_for

HERE = Path(__file__).parent
OWN, COMPARISON, GUARD = "own_job_benchmark", "job_comparison", "leak_guard"
TARGETS = {"g4dn.xlarge": "cuda", "c5.2xlarge": "cpu"}
SIZES, REPEATS = (1, 2, 4, 8), 3
IMAGE = "registry.example.com/team/work:1.4"
OWN_JOBS = {
    "sweep": {
        "image": IMAGE,
        "command": ["python", "work.py", "sweep", "Ref::size"],
        "axis": {"parameter": "size", "sizes": list(SIZES)},
    },
    "cases": {
        "image": IMAGE,
        "command": ["python", "work.py", "case", "Ref::case"],
        "axis": {"parameter": "case", "sizes": [FAILS, WRONG, MALFORMED, LOUD]},
        "check": f'! rm "{MARK.format("$AWS_BATCH_JOB_ID")}"',
        "attempts": 1,
    },
}
FOR_EVER = "import time; time.sleep(900)"
TIMEOUT_SECONDS = 60  # the least that Batch takes
# Each side's instance type; the prices of both are committed.
SIDES = {"old": "m5.2xlarge", "new": "c5.2xlarge", "endless": "m5.2xlarge"}
LIVE = ("SUBMITTED", "PENDING", "RUNNABLE", "STARTING", "RUNNING")


@pytest.fixture(scope="module")
def stack(tmp_path_factory):
    """Both targets' jobs run side by side: nothing here depends on how long they take."""
    folder = tmp_path_factory.mktemp("own_jobs")
    job_dir = HERE / "own_jobs"
    made = Stack(folder, Ports(), Clock().say, own_jobs=OWN_JOBS, job_dir=job_dir, vcpus=12)
    made.processes.env["PYTHONPATH"] = (
        f"{HERE / 'airflow_settings'}:{made.processes.env['PYTHONPATH']}"
    )
    made.processes.env["AIRFLOW__DAG_PROCESSOR__MIN_FILE_PROCESS_INTERVAL"] = "3600"
    with made:
        made.start()
        yield made


@pytest.fixture(scope="module")
def aws(stack):
    with closing(AwsClients(stack)) as clients:
        yield clients


@pytest.fixture(scope="module")
def airflow(stack):
    with AirflowClient(stack.airflow) as client:
        yield client


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
            self.side("endless", ["python", "-c", FOR_EVER]),
        ]
        self.own = [self.submit("theirs")]

    def queue(self, name, instance_type, network):
        environment = self.batch.create_compute_environment(
            computeEnvironmentName=f"their-{name}",
            type="MANAGED",
            computeResources={
                "type": "EC2",
                "minvCpus": 0,
                "maxvCpus": 64,
                "instanceTypes": [instance_type],
                "instanceRole": "theirs",
                **network,
            },
        )["computeEnvironmentArn"]
        return self.batch.create_job_queue(
            jobQueueName=f"their-{name}",
            priority=1,
            state="ENABLED",
            computeEnvironmentOrder=[{"order": 1, "computeEnvironment": environment}],
        )["jobQueueArn"]

    def side(self, name, command, vcpus=1):
        needs = {"VCPU": str(vcpus), "MEMORY": "256"}
        self.batch.register_job_definition(
            jobDefinitionName=f"their-{name}",
            type="container",
            containerProperties={
                "image": "registry.example.com/theirs/work:7",
                "command": command,
                "resourceRequirements": [
                    {"type": kind, "value": value} for kind, value in needs.items()
                ],
            },
            parameters={"size": "1"},
            timeout={"attemptDurationSeconds": TIMEOUT_SECONDS},
        )
        return {"name": name, "job_queue": f"their-{name}", "job_definition": f"their-{name}"}

    def submit(self, name, side="old"):
        """A job of theirs that runs for longer than all tests here."""
        return self.batch.submit_job(
            jobName=name,
            jobQueue=self.queues[side],
            jobDefinition=f"their-{side}",
            containerOverrides={"command": ["python", "-c", FOR_EVER]},
            timeout={"attemptDurationSeconds": 3600},
        )["jobId"]

    def jobs(self):
        every = [{"name": "JOB_NAME", "values": ["*"]}]
        return [
            job
            for queue in self.queues.values()
            for job in self.batch.list_jobs(jobQueue=queue, filters=every)["jobSummaryList"]
        ]

    def status(self, job_id):
        return self.batch.describe_jobs(jobs=[job_id])["jobs"][0]["status"]


@pytest.fixture(scope="module")
def theirs(aws):
    """A job of theirs runs before, during and after the comparison."""
    made = Existing(aws)
    yield made
    for job_id in made.own:
        made.batch.terminate_job(jobId=job_id, reason="the tests are over")


@pytest.fixture(scope="module")
def runs(airflow, theirs):
    """The run ids and states of all runs, which overlap."""
    asked = {
        "sweep": (OWN, {"job": "sweep", "repeats": REPEATS, "deadline_seconds": 600}),
        "cases": (OWN, {"job": "cases", "repeats": 1, "reruns": 0}),
        "comparison": (
            COMPARISON,
            {
                "name": "theirs",
                "sides": theirs.sides[:2],
                "parameter": "size",
                "sizes": [1, 2],
                "repeats": 1,
            },
        ),
        "endless": (COMPARISON, {"name": "endless", "sides": theirs.sides[2:], "repeats": 1}),
    }
    for dag_id in (OWN, COMPARISON):
        airflow.wait_for_dag(dag_id)
        airflow.unpause(dag_id)
    begun = {name: airflow.trigger(dag_id, conf) for name, (dag_id, conf) in asked.items()}
    return {
        name: (run_id, wait_for_end(airflow, asked[name][0], run_id))
        for name, run_id in begun.items()
    }


@pytest.fixture(scope="module")
def report_of(aws, runs):
    def read(name):
        store = store_of(aws, runs[name][0])
        return Report.model_validate_json(store.read(store.prefix + REPORT_JSON))

    return read


@pytest.fixture(scope="module")
def documents_of(aws, runs):
    """A run's result documents, as they lie in the bucket."""
    s3, bucket = aws.client("s3"), aws.config().bucket

    def read(name):
        pages = s3.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix="raw/")
        keys = [each["Key"] for page in pages for each in page.get("Contents", ())]
        read = [s3.get_object(Bucket=bucket, Key=key)["Body"].read() for key in keys]
        return [each for each in map(parse_document, read) if each.run_id == runs[name][0]]

    return read


def study(report):
    (only,) = report.own_jobs
    return only


def figures(report):
    """By side and size."""
    return {
        (side.target.name, figure.place.size): figure
        for side in study(report).sides
        for figure in side.figures
    }


def case_of(documents, case, target):
    (found,) = [
        each
        for each in documents
        if each.target == target and each.measurements[0].parameters["case"] == case
    ]
    return found


def told(document):
    """The samples of a document's metrics, by name."""
    return {
        row.parameters[METRIC]: row.samples_seconds
        for row in document.measurements
        if METRIC in row.parameters
    }


def test_a_sweep_measures_each_target_at_each_size(runs, report_of):
    assert runs["sweep"][1] == "success"
    found = figures(report_of("sweep"))
    assert set(found) == {(target, size) for target in TARGETS for size in SIZES}
    assert {figure.jobs for figure in found.values()} == {REPEATS}
    assert all(figure.problem is None for figure in found.values())


def test_metrics_come_from_the_log_and_from_the_file(report_of):
    for (_, size), figure in figures(report_of("sweep")).items():
        metrics = {each.metric: each for each in figure.metrics}
        assert metrics["rate"].value.value == pytest.approx(100 / size)
        assert (metrics["rate"].unit, metrics["rate"].higher_is_better) == ("items/s", True)
        assert metrics["error"].value.value == pytest.approx(0.5)
        assert {each.jobs for each in metrics.values()} == {REPEATS}


def test_sizes_and_sides_take_turns_in_a_mixed_order(aws, runs):
    store = store_of(aws, runs["sweep"][0])
    plan = RunPlan.model_validate_json(store.read(store.prefix + PLAN))
    order = [(job.repeat, job.target, job.own_job.size) for job in plan.jobs]
    assert len(order) == len(TARGETS) * len(SIZES) * REPEATS
    assert [repeat for repeat, *_ in order] == sorted(repeat for repeat, *_ in order)
    rounds = [
        [rest for repeat, *rest in order if repeat == number] for number in range(1, REPEATS + 1)
    ]
    assert sorted(rounds[0]) == sorted(rounds[1]) == sorted(rounds[2])
    assert len({str(each) for each in rounds}) > 1


def test_no_figure_of_this_machine_stands_for_a_gpu_or_costs_money(report_of, documents_of):
    documents = documents_of("sweep")
    assert {each.actual_device for each in documents} == {"cpu"}
    assert {each.environment.instance_type for each in documents} == {None}
    assert {each.own_job.start for each in documents} == {None}
    assert {each.environment.image for each in documents} == {IMAGE}
    assert {figure.usd_per_job for figure in figures(report_of("sweep")).values()} == {None}


def test_the_page_shows_the_job(aws, runs):
    store = store_of(aws, runs["sweep"][0])
    page = store.read(store.prefix + REPORT_HTML).decode()
    assert "sweep" in page
    assert "items/s" in page


def test_a_job_that_exits_3_is_not_compared(runs, report_of, documents_of):
    assert runs["cases"][1] == "failed"
    documents = documents_of("cases")
    for target in TARGETS:
        document = case_of(documents, FAILS, target)
        assert document.own_job.exit_code == 3
        assert not document.own_job.check.passed
        assert {row.status for row in document.measurements} == {"failed"}
        assert "3" in figures(report_of("cases"))[target, FAILS].problem


def test_a_check_that_fails_on_one_side_leaves_the_other(report_of, documents_of):
    documents = documents_of("cases")
    wrong, right = (case_of(documents, WRONG, target) for target in TARGETS)
    assert (wrong.own_job.check.passed, right.own_job.check.passed) == (False, True)
    assert wrong.own_job.exit_code == 0 or wrong.own_job.check.kind == "command"
    found = figures(report_of("cases"))
    assert found["g4dn.xlarge", WRONG].problem
    assert found["c5.2xlarge", WRONG].problem is None
    assert not [duel for duel in study(report_of("cases")).duels if duel.place.size == WRONG]


def test_each_malformed_line_is_named_and_the_good_ones_are_kept(documents_of):
    document = case_of(documents_of("cases"), MALFORMED, "c5.2xlarge")
    bad = [(each.source, each.number) for each in document.own_job.bad_lines]
    assert sorted(bad) == [("file", 2), ("log", 1), ("log", 3)]
    assert "no JSON" in {each.text for each in document.own_job.bad_lines}
    assert told(document) == {
        "rate": (pytest.approx(1 / 7),),
        "share": (pytest.approx(2.0),),
    }


def test_a_job_that_prints_100_mb_is_measured_like_any_other(documents_of):
    for target in TARGETS:
        document = case_of(documents_of("cases"), LOUD, target)
        assert document.own_job.check.passed
        assert told(document) == {"rate": (pytest.approx(1 / 9),)}


def test_existing_jobs_are_compared_and_priced(aws, runs, report_of, theirs):
    assert runs["comparison"][1] == "success"
    found = figures(report_of("comparison"))
    assert set(found) == {(side, size) for side in ("old", "new") for size in (1, 2)}
    assert {figure.jobs for figure in found.values()} == {1}
    store = store_of(aws, runs["comparison"][0])
    plan = RunPlan.model_validate_json(store.read(store.prefix + PLAN))
    assert {job.target: job.instance_type for job in plan.jobs} == {
        "old": "m5.2xlarge",
        "new": "c5.2xlarge",
    }
    revisions = {job.own_job.job_definition.rpartition("/")[2] for job in plan.jobs}
    assert revisions == {"their-old:1", "their-new:1"}
    assert json.loads(store.read(store.prefix + PLAN))["worst_case_usd"] > 0


def test_a_job_that_never_ends_is_ended_by_its_timeout(runs, documents_of):
    assert runs["endless"][1] == "failed"
    (document,) = documents_of("endless")
    assert not document.own_job.check.passed
    assert document.own_job.running_seconds == pytest.approx(TIMEOUT_SECONDS, abs=20)
    assert {row.status for row in document.measurements} == {"failed"}


def test_a_comparison_leaves_nothing_and_touches_nothing_of_others(runs, theirs):
    jobs = theirs.jobs()
    assert [job["jobId"] for job in jobs if job["status"] in LIVE] == theirs.own
    assert {theirs.status(job_id) for job_id in theirs.own} == {"RUNNING"}
    queues = theirs.batch.describe_job_queues(jobQueues=list(theirs.queues.values()))["jobQueues"]
    assert {queue["state"] for queue in queues} == {"ENABLED"}


def test_the_leak_guard_leaves_jobs_of_others_alone(airflow, theirs, runs):
    ours = next(job["jobName"] for job in theirs.jobs() if job["jobId"] not in theirs.own)
    theirs.own.append(theirs.submit(ours))
    wait_for(lambda: theirs.status(theirs.own[-1]) == "RUNNING", "start of a job of theirs", 60)
    conf = {"grace_minutes": 0, "idle_minutes": 0, "end_leaks": ["jobs", "instances"]}
    _, state = run_dag(airflow, GUARD, conf)
    assert state == "success"
    assert {theirs.status(job_id) for job_id in theirs.own} == {"RUNNING"}


def test_an_unknown_side_submits_nothing(airflow, theirs):
    before = [job["jobId"] for job in theirs.jobs()]
    sides = [{**theirs.sides[0], "job_queue": "their-odd"}]
    run_id, state = run_dag(airflow, COMPARISON, {"name": "typo", "sides": sides})
    assert state == "failed"
    log = failed_log(airflow, COMPARISON, run_id, "check_environment")
    assert "no job queue 'their-odd' in this region (did you mean their-old?)" in log
    assert [job["jobId"] for job in theirs.jobs()] == before
