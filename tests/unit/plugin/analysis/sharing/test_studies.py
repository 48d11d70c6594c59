"""A run's shared tasks: curves with prices, what is advised, and who suffered in experiments."""

import pytest

from batchmark.analysis.comparison import compare
from batchmark.report.sharing import words
from batchmark_job.result.document import Conditions, Implementation
from batchmark_job.result.sharing_options import SharingOptions
from tests.builders.runs import (
    GPU_ENVIRONMENT,
    ON_LAPTOP,
    PRICES,
    build_job,
    build_lost,
    build_row,
    build_run,
    noisy,
)
from tests.builders.sharing import (
    curve_rows,
    equal_replicas,
    replica,
    shared_row,
    sharing_job,
    unshared_row,
)
from tests.builders.studies import shared_task

GPU = "g5.xlarge"  # at 1.006 USD an hour
ALONE = 100.0  # steps a second


def task_of(*rows, **fields):
    return shared_task(sharing_job(GPU, rows, **fields))


def curve(task, mode="time_slicing"):
    (found,) = [one for one in task.curves if one.mode == mode]
    return found


def alone(**fields):
    return shared_row("exclusive", 1, ALONE, **fields)


SATURATING = {1: 100.0, 2: 190.0, 4: 210.0, 8: 211.0}


def test_a_curve_has_throughput_gain_price_and_each_replicas_steps():
    task = task_of(alone(), *curve_rows("time_slicing", SATURATING))
    found = curve(task)
    assert [point.replicas for point in found.points] == [1, 2, 4, 8]
    point = found.point(4)
    assert point.throughput.value == pytest.approx(210)
    assert point.throughput.interval.low < 210 < point.throughput.interval.high
    assert point.gain.value == pytest.approx(2.1)
    assert point.items_per_second.value == pytest.approx(32 * 210)
    assert point.usd_per_1000_steps.value == pytest.approx(1.006 / 3600 * 1000 / 210)
    assert point.interference == pytest.approx(4 / 2.1)
    assert (point.jobs, point.samples) == (1, 15)
    assert (found.knee.outcome, found.knee.replicas) == ("found", 4)
    assert curve(task, "exclusive").knee is None
    assert task.parameters == {"batch": 32}


def test_limits_of_mps_belong_to_the_mode_and_not_to_the_task():
    limited = {"task": {"batch": 32, "mps_threads": 25, "mps_memory_mib": 1024}}
    task = task_of(alone(), *(shared_row("mps", n, 100.0 * n, **limited) for n in (1, 2)))
    found = curve(task, "mps")
    assert task.parameters == {"batch": 32}
    assert (found.mps_threads, found.mps_memory_mib) == (25, 1024)
    assert found.point(2).gain.value == pytest.approx(2)
    assert words.curve_name(task, found) == "MPS, 25 % of the threads and 1024 MiB each"


def test_jobs_are_pooled_and_their_disagreement_widens_the_interval():
    def point(*levels):
        rows = [shared_row("time_slicing", 2, one, seed=n) for n, one in enumerate(levels, 1)]
        jobs = [sharing_job(GPU, [row], repeat=n) for n, row in enumerate(rows, start=1)]
        return shared_task(*jobs).curves[0].points[0]

    def width(point):
        return point.throughput.interval.high - point.throughput.interval.low

    equal = point(100, 100, 100)
    assert (equal.jobs, equal.samples) == (3, 45)
    assert width(point(90, 100, 110)) > 3 * width(equal)


def test_sharing_is_advised_at_the_knee_with_what_it_gives_against_one_alone():
    advice = task_of(alone(), *curve_rows("time_slicing", SATURATING)).advice
    choice = advice.choice
    assert (advice.verdict, advice.mode) == ("share", "time_slicing")
    assert (choice.replicas, choice.at_least) == (4, False)
    assert choice.gain.value == pytest.approx(2.1)
    assert choice.price.value == pytest.approx(1 / 2.1)
    assert choice.price.interval.low < 1 / 2.1 < choice.price.interval.high
    assert choice.p95_alone == pytest.approx(0.015)
    assert choice.p95_seconds == pytest.approx(1.5 * 4 / 210)
    assert choice.usd_alone.value == pytest.approx(1.006 / 3600 * 1000 / 100)


@pytest.mark.parametrize(
    ("throughputs", "spread", "verdict", "replicas", "at_least"),
    [
        ({1: 100, 2: 200, 4: 400}, 0.01, "share", 4, True),
        ({1: 100, 2: 100, 4: 100}, 0.01, "alone", None, None),
        ({1: 100, 2: 80, 4: 60}, 0.01, "alone", None, None),
        ({1: 100, 2: 108, 4: 107}, 0.2, "not_known", None, None),
        ({4: 400}, 0.01, "share", 4, True),  # held against the task in exclusive mode
    ],
)
def test_the_verdict(throughputs, spread, verdict, replicas, at_least):
    rows = [alone(spread=spread), *curve_rows("time_slicing", throughputs, spread=spread)]
    advice = task_of(*rows).advice
    assert advice.verdict == verdict
    if advice.choice:
        assert (advice.choice.replicas, advice.choice.at_least) == (replicas, at_least)
    else:
        assert replicas is None
        assert advice.reason


def test_a_gain_that_the_machine_has_by_itself_is_no_gain():
    rows = [alone(), *curve_rows("time_slicing", {2: 150.0, 4: 151.0})]
    assert task_of(*rows).advice.verdict == "share"
    steady, unsteady = (shared_row("exclusive", 4, one) for one in (101.0, 160.0))
    assert task_of(*rows, steady).advice.verdict == "share"
    advice = task_of(*rows, unsteady).advice
    assert advice.verdict == "not_known"
    assert advice.reason.endswith("but one task alone also varied by up to 1.60×")


def test_the_best_mode_is_advised_and_those_as_good_are_named():
    better = {1: 99.0, 2: 196.0, 4: 330.0, 8: 331.0}
    rows = [alone(), *curve_rows("time_slicing", SATURATING), *curve_rows("mps", better)]
    advice = task_of(*rows).advice
    assert (advice.mode, advice.choice.replicas, advice.equals) == ("mps", 4, ())
    advice = task_of(*rows, *curve_rows("streams", better, seed=1)).advice
    assert {advice.mode, *advice.equals} == {"mps", "streams"}


def test_without_one_alone_or_tasks_at_once_nothing_is_known():
    lonely = task_of(*curve_rows("time_slicing", {2: 190.0, 4: 210.0})).advice
    assert (lonely.verdict, lonely.reason) == ("not_known", "no task was measured alone")
    in_turn = task_of(alone()).advice
    assert (in_turn.verdict, in_turn.mode) == ("not_known", None)


def test_skipped_modes_and_numbers_that_did_not_fit_are_told_with_their_reason():
    full = [replica(), replica(outcome="out_of_memory", reason="CUDA out of memory")]
    task = task_of(
        alone(),
        shared_row("time_slicing", 1, ALONE),
        shared_row("time_slicing", 2, 180.0, replicas=full),
        unshared_row("mps", 2, "this machine has no GPU"),
    )
    (missing,) = curve(task).unmeasured
    assert missing.reason == "replica 2 ran out of memory (CUDA out of memory)"
    (missing,) = curve(task, "mps").unmeasured
    assert missing.reason == "skipped: this machine has no GPU"


def in_a_job_each(*rows):
    """As on a shared target: each number of replicas has a job, which chooses its own code."""
    return shared_task(*(sharing_job(GPU, [row], job_id=f"job-{n}") for n, row in enumerate(rows)))


def test_another_implementations_gain_is_no_gain_of_sharing():
    eager, graph = (
        Implementation(name=name, version="2.13.0", threads=4)
        for name in ("torch, channels-last", "torch, CUDA graph")
    )
    rows = [
        shared_row("time_slicing", count, one, form="jobs", implementation=code)
        for count, one, code in ((1, 100.0, eager), (2, 190.0, eager), (4, 800.0, graph))
    ]
    task = in_a_job_each(*rows)
    (found,) = task.curves
    assert [point.replicas for point in found.points] == [1, 2]
    (missing,) = found.unmeasured
    assert missing.replicas == 4
    assert missing.reason == (
        "its implementation differs from that of the task alone: torch, CUDA graph 2.13.0 "
        "instead of torch, channels-last 2.13.0"
    )
    assert found.knee.replicas == 2
    assert task.codes == (eager, graph)
    # Where none was measured alone, the smallest number stands for it.
    (found,) = in_a_job_each(*rows[1:]).curves
    assert found.unmeasured[0].reason.startswith(
        "its implementation differs from that of 2 replicas: torch, CUDA graph"
    )
    same = [row.model_copy(update={"implementation": eager}) for row in rows]
    assert in_a_job_each(*same).curves[0].unmeasured == ()


def test_a_starved_replica_is_named_at_its_point():
    shares = [replica((300,) * 3), replica((300,) * 3), replica((30,) * 3)]
    row = shared_row("time_slicing", 3, 150.0, replicas=shares)
    (point,) = curve(task_of(alone(), row)).points
    (one,) = point.starved
    assert (one.replica, one.job_id) == (2, "g5-xlarge-sharing-1")
    assert point.figures.fairness_worst == pytest.approx(630**2 / (3 * 180_900))


def test_replicas_that_wait_for_each_other_are_no_disturbance():
    waited = Conditions(cpu_steal_share=0.05, cpu_wait_share=0.5)
    (point,) = curve(task_of(shared_row("time_slicing", 4, 90.0, conditions_during=waited))).points
    assert point.warnings == ("the hypervisor took 5.0 % of CPU time from the machine",)


def test_forms_have_curves_and_ones_alone_of_their_own():
    in_jobs = curve_rows("time_slicing", {1: 50.0, 2: 99.0}, form="jobs")
    task = task_of(alone(), *curve_rows("time_slicing", SATURATING), *in_jobs)
    (jobs,) = [one for one in task.curves if one.form == "jobs"]
    assert jobs.point(2).gain.value == pytest.approx(99 / 50)
    assert task.advice.form == "processes"


def test_without_the_priced_machine_there_are_gains_but_no_dollars():
    rows = [alone(), *curve_rows("time_slicing", SATURATING)]
    task = task_of(*rows, **ON_LAPTOP)
    assert curve(task).points[0].usd_per_1000_steps is None
    assert "a machine outside EC2" in task.price.note
    assert task.advice.choice.price.value == pytest.approx(1 / 2.1)


def test_jobs_of_different_environments_are_refused():
    other = GPU_ENVIRONMENT.model_copy(update={"driver_version": "590.1"})
    one, two = (sharing_job(GPU, [alone()], environment=of) for of in (GPU_ENVIRONMENT, other))
    task = shared_task(one, two)
    assert "driver major" in task.refused
    assert task.curves == ()


def disturbed(others, disturbance="crash", outcome="crashed", ended=None, **fields):
    """Four replicas, of which the last three make so many steps a second together."""
    steps = round(1000 * others / 3)
    replicas = [replica((), outcome=outcome), *[replica((steps,) * 3)] * 3]
    if ended:
        replicas[2] = replica((), outcome=ended, reason="exit code 1")
    return shared_row(
        "time_slicing", 4, others, replicas=replicas, disturbance=disturbance, **fields
    )


def experiment(row):
    usual = shared_row("time_slicing", 4, 200.0, replicas=equal_replicas(4, 200.0))
    (found,) = task_of(alone(), usual, row).experiments
    return found


def test_nobody_suffers_where_the_others_made_as_many_steps_and_all_where_none_is_made():
    found = experiment(disturbed(160.0))
    assert found.first.outcome == "crashed"
    assert found.ended == ()
    assert found.others.value == pytest.approx(160 / 150)  # three quarters of the 200
    assert found.suffered == "nobody"
    sharing = disturbed(1.0, "hang", "hung").sharing
    row = unshared_row("time_slicing", 4, "no replica made a step any more")
    named = row.parameters | {"disturbance": "hang"}
    found = experiment(row.model_copy(update={"parameters": named, "sharing": sharing}))
    assert (found.suffered, found.others) == ("others", None)
    assert found.reason == "skipped: no replica made a step any more"


@pytest.mark.parametrize(
    ("row", "suffered"),
    [
        (disturbed(100.0), "others"),
        (disturbed(160.0, ended="out_of_memory"), "others"),
        (disturbed(143.0, disturbance="slow", outcome="ran", spread=0.2), "not_known"),
    ],
)
def test_others_suffer_by_fewer_steps_or_by_ending_early(row, suffered):
    assert experiment(row).suffered == suffered


def test_an_experiment_without_its_undisturbed_row_is_not_known_and_on_no_curve():
    task = task_of(alone(), disturbed(160.0))
    (found,) = task.experiments
    assert found.suffered == "not_known"
    assert found.reason == "the same replicas were not measured without the disturbance"
    assert [one.mode for one in task.curves] == ["exclusive"]
    # One that can't be made there is none.
    row = unshared_row("mps", 4, "no GPU")
    named = row.parameters | {"disturbance": "hang"}
    assert task_of(alone(), row.model_copy(update={"parameters": named})).experiments == ()


def test_rows_of_other_suites_share_nothing():
    own = build_row(noisy(0.1), parameters={"mode": "mps", "replicas": 2})
    found = compare(build_run(build_job(GPU, [own, build_row(noisy(0.1))])), PRICES)
    assert found.studies == {}


def test_a_number_of_replicas_whose_job_is_lost_is_unmeasured_with_its_reason():
    def lost(count, reason, mode="time_slicing", repeat=1, form="jobs"):
        own = {"task": "cnn_training_step", "axes": {"batch": 32}, "form": form}
        plan = SharingOptions(modes=(mode,), replicas=(count,), **own)
        return build_lost(GPU, reason, suite="sharing", repeat=repeat, sharing=plan)

    rows = curve_rows("time_slicing", {1: 100, 2: 110}, form="jobs")
    gone = [
        lost(20, "1 of 20 children failed.\n3: exit code 1"),
        lost(5, "Host EC2 terminated"),
        lost(2, "a repeat that another makes up for", repeat=2),
        lost(10, "another mode's", mode="mps"),
        lost(8, "of processes", repeat=2, form="processes"),
    ]
    task = shared_task(sharing_job(GPU, rows), lost=gone)
    assert [(one.replicas, one.reason) for one in curve(task).unmeasured] == [
        (5, "its job left no result: Host EC2 terminated"),
        (20, "its job left no result: 1 of 20 children failed"),
    ]
