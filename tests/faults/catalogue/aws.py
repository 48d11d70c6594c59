"""What AWS does on its bad days."""

from __future__ import annotations

from batchmark.core.names import slug
from batchmark_job.result.document import MeasurementStatus
from batchmark_job.result.own_job import OwnJob
from tests.faults.bench import Bench
from tests.faults.outcome import DAG_COMPARISON, Fault, Outcome, Run, Runs
from tests.faults.targets import STOPS_EARLY, job_prefix

OUTAGE_SECONDS = 30
EXPIRED_SECONDS = 20
FIRST = "turn 1 of"  # of those that measure a row
# A metric between so many lines that a shell's are lost and it is not.
FILLING = 20
SPEED = '{"metric": "speed", "value": 4, "unit": "1/s", "higher_is_better": true}'
TELLS = f"seq {FILLING}; echo 'BATCHMARK_METRIC {SPEED}'; sleep 1; seq {FILLING}"
FOREIGN = "foreign"  # side of a comparison
TWICE = Outcome("success, success", jobs=2)


def spot_once(bench: Bench) -> Run:
    """The real job: what its first attempt measured before it lost its host stays as it was."""
    run = bench.start("spot-once", "spot-once", gated=False)
    job = bench.wait_for_job(run, "RUNNING")
    bench.wait(lambda: any(FIRST in line for line in bench.log_lines(job)), "first row")
    bench.begin(
        "spot_interruption",
        job_name=f"{job_prefix(bench.config, run.target)}*",
        times=1,
        notice_seconds=20,
        shutdown_seconds=10,
    )
    bench.wait(lambda: bench.documents(run), "document written on Spot's notice")
    assert any("Spot is interrupting this host" in line for line in bench.log_lines(job))
    assert [one["status"] for one in bench.jobs(run)] == ["RUNNING"]  # it awaits its host's end
    bench.finish(run)
    first, last = bench.documents(run)
    assert (first.status, first.job_attempt) == ("interrupted", 1)
    assert first.measurements[0].status is MeasurementStatus.MEASURED
    assert (last.status, last.job_attempt) == ("complete", 2)
    return run


def spot_always(bench: Bench) -> Run:
    """No attempt on Spot comes through; the gate opens for the one On-Demand."""
    run = bench.start("spot-always", "spot-always")
    bench.begin(
        "spot_interruption",
        job_name=f"{job_prefix(bench.config, run.target)}*",
        compute_environment=bench.config.targets[run.target].compute_environments.spot,
        after_seconds=1,
        notice_seconds=1,
        shutdown_seconds=1,
    )
    first = bench.wait_for_job(run, "FAILED")
    bench.wait_for_job(run, "RUNNING", but=first["jobId"])
    return bench.finish(run)


def throttling(bench: Bench) -> Runs:
    with bench.fault("throttle", share=0.3) as fault:
        runs = {name: bench.start(f"throttling-{name}", gated=False) for name in ("a", "b", "c")}
        bench.finish_all(runs)
        assert bench.faults()[fault]["strikes"] > 0
    return runs


def outage(bench: Bench) -> Runs:
    """No call gets an answer for 30 s."""
    running = bench.start("outage-running")
    ending = bench.start("outage-ending")
    for run in (running, ending):
        bench.wait_until_watched(run)
    submitting = bench.start("outage-submitting")
    bench.wait_for_task(submitting, "success", task_id="plan_jobs")
    bench.begin("outage", seconds=OUTAGE_SECONDS, how="drop")
    ending.open()
    bench.wait(lambda: not bench.faults(), "end of the outage")
    return bench.finish_all({"submitting": submitting, "running": running, "ending": ending})


def expired_credentials(bench: Bench) -> Run:
    """For a while nobody can read the document of a job that ended well."""
    run = bench.start("expired-credentials")
    bench.wait_until_watched(run)
    folder = f"arn:aws:s3:::{bench.config.bucket}/raw/{slug(run.run_id)}/*"
    fault = bench.begin(
        "expired_credentials", seconds=EXPIRED_SECONDS, operations=["GetObject"], resources=[folder]
    )
    run.open()
    bench.wait(lambda: bench.faults()[fault]["strikes"], "refused read")
    return bench.finish(run)


def foreign_job(bench: Bench, run_id: str, side: str) -> Run:
    """A job that knows nothing of us, on a queue of ours; its queue's first job runs once more."""
    there = bench.config.targets["plain"]
    sides = [
        {
            "name": side,
            "job_queue": there.job_queue,
            "job_definition": there.job_definition,
            "command": ["sh", "-c", TELLS],
        }
    ]
    conf = {"name": "faults", "sides": sides, "repeats": 1}
    return bench.start(run_id, side, dag_id=DAG_COMPARISON, gated=False, conf=conf)


def own_jobs(bench: Bench, run: Run) -> list[OwnJob]:
    """What is known of its jobs, which told a metric; the outcome counts them."""
    documents = bench.documents(run)
    assert all(len(document.measurements) == 2 for document in documents)
    return [document.own_job for document in documents if document.own_job]


def lost_lines(bench: Bench) -> Runs:
    """The log driver drops lines at either end, those of the shell among them."""
    missing = {"first": "its beginning", "last": "its end"}
    for side in missing:
        names = f"{job_prefix(bench.config, side)}*"
        bench.begin("lost_log_lines", job_name=names, **{side: FILLING})
    runs = {side: foreign_job(bench, f"{side}-lines-lost", side) for side in missing}
    bench.finish_all(runs)
    for side, part in missing.items():
        for own_job in own_jobs(bench, runs[side]):
            assert f"{part} is missing, so metrics may be missing" in own_job.doubts[0]
    return runs


def stop_before_start(bench: Bench) -> Runs:
    for target in (STOPS_EARLY, FOREIGN):
        names = f"{job_prefix(bench.config, target)}*"
        bench.begin("stop_before_start", job_name=names, early_seconds=60)
    runs = {
        "a suite's": bench.start("stop-before-start", STOPS_EARLY, gated=False),
        "a job of others": foreign_job(bench, "foreign-stop-before-start", FOREIGN),
    }
    bench.finish_all(runs)
    for own_job in own_jobs(bench, runs["a job of others"]):
        assert own_job.running_seconds is None
        assert own_job.doubts[0].endswith(
            "so its time covers only the command, measured by the job's own clock"
        )
    return runs


FAULTS = (
    Fault("Spot interruption, once", spot_once, {"": Outcome()}),
    Fault("Spot interruption, always", spot_always, {"": Outcome(jobs=2)}),
    Fault("credentials expired for 20 s as a job ends", expired_credentials, {"": Outcome()}),
    Fault("log lines lost", lost_lines, {"first": TWICE, "last": TWICE}),
    Fault(
        "stop before the start",
        stop_before_start,
        {"a suite's": Outcome(), "a job of others": TWICE},
    ),
    Fault(
        "throttling of 30 % of calls",
        throttling,
        {name: Outcome() for name in ("a", "b", "c")},
        alone=True,
    ),
    Fault(
        "local cloud away for 30 s",
        outage,
        {point: Outcome() for point in ("submitting", "running", "ending")},
        alone=True,
    ),
)
