"""What can be asked of the suite, and what its rows are called."""

import pytest

from batchmark_job.errors import InputError
from batchmark_job.result.sharing import Disturbance, SharingMode
from batchmark_job.sharing.point import MpsLimits, SharingOptions, SharingPoint

TIME_SLICING, MPS = SharingMode.TIME_SLICING, SharingMode.MPS


def test_curves_come_first_from_few_to_many_then_experiments():
    options = SharingOptions(
        (SharingMode.EXCLUSIVE, TIME_SLICING), (1, 5), (Disturbance.CRASH, Disturbance.SLOW)
    )
    assert [point.parameters() for point in options.points()] == [
        {"mode": "exclusive", "replicas": 1},
        {"mode": "time_slicing", "replicas": 1},
        {"mode": "exclusive", "replicas": 5},
        {"mode": "time_slicing", "replicas": 5},
        {"mode": "time_slicing", "replicas": 5, "disturbance": "crash"},
        {"mode": "time_slicing", "replicas": 5, "disturbance": "slow"},
    ]


@pytest.mark.parametrize(
    ("replicas", "of_experiment"), [((1, 2, 20), 2), ((3, 4), 4), ((1,), 5), ((10,), 5)]
)
def test_an_experiment_has_a_few_replicas(replicas, of_experiment):
    options = SharingOptions((TIME_SLICING,), replicas, (Disturbance.HANG,))
    assert options.points()[-1].replicas == of_experiment


def test_limits_name_rows_of_mps_alone():
    limits = MpsLimits(50, 1024)
    assert SharingPoint(TIME_SLICING, 2, limits=limits).parameters() == {
        "mode": "time_slicing",
        "replicas": 2,
    }
    named = SharingPoint(MPS, 2, form="jobs", limits=limits).parameters()
    assert named == {
        "mode": "mps",
        "replicas": 2,
        "form": "jobs",
        "mps_threads": 50,
        "mps_memory_mib": 1024,
    }
    assert limits.memory_bytes == 2**30


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"replicas": (0,)}, "--replicas 0 is out of range; give 1 to 100"),
        ({"replicas": (101,)}, "--replicas 101 is out of range"),
        (
            {"modes": (TIME_SLICING,), "limits": MpsLimits(thread_percentage=5)},
            "--mps-threads and --mps-memory go with mode mps; --modes is time_slicing",
        ),
        (
            {"replicas": (1, 49)},
            "--replicas 49 is more than the 48 clients that MPS takes on a GPU; give 1 to 48, or",
        ),
        ({"form": "jobs"}, "--form jobs has one mode, time_slicing or mps; --modes is exclusive"),
        (
            {"form": "pods", "modes": (SharingMode.STREAMS,)},
            "--form pods has one mode, time_slicing or mps; --modes is streams",
        ),
        (
            {"form": "jobs", "modes": (MPS,)},
            "--form jobs has one number of replicas, that of its jobs; --replicas is 1,2,5,10,20",
        ),
        (
            {
                "form": "jobs",
                "modes": (MPS,),
                "replicas": (2,),
                "disturbances": (Disturbance.HANG,),
            },
            "--disturbances go with --form processes, not with jobs",
        ),
    ],
)
def test_what_contradicts_itself_is_refused(changes, message):
    with pytest.raises(InputError, match=message):
        SharingOptions(**changes).points()


@pytest.mark.parametrize(
    ("limits", "message"),
    [
        ((0, None), "--mps-threads 0 is no percentage; give 1 to 100"),
        ((101, None), "--mps-threads 101"),
        ((None, 0), "--mps-memory 0 leaves a client nothing"),
    ],
)
def test_limits_of_mps_are_checked(limits, message):
    with pytest.raises(InputError, match=message):
        MpsLimits(*limits)


@pytest.mark.parametrize(("mode", "most"), [(MPS, 48), (TIME_SLICING, 100)])
def test_each_mode_has_as_many_replicas_as_its_gpu_takes(mode, most):
    assert [point.replicas for point in SharingOptions((mode,), (most,)).points()] == [most]
