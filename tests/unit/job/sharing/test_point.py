"""What can be asked of the suite, and what its rows are called."""

import pytest

from batchmark_job.result.sharing import Disturbance, SharingMode
from batchmark_job.result.sharing_options import SharingOptions
from batchmark_job.sharing.point import MpsLimits, SharingPoint, sharing_points

TIME_SLICING, MPS = SharingMode.TIME_SLICING, SharingMode.MPS


def test_curves_come_first_from_few_to_many_then_experiments():
    options = SharingOptions(
        modes=(SharingMode.EXCLUSIVE, TIME_SLICING),
        replicas=(1, 5),
        disturbances=(Disturbance.CRASH, Disturbance.SLOW),
    )
    assert [point.parameters() for point in sharing_points(options)] == [
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
    options = SharingOptions(
        modes=(TIME_SLICING,), replicas=replicas, disturbances=(Disturbance.HANG,)
    )
    assert sharing_points(options)[-1].replicas == of_experiment


def test_limits_name_rows_of_mps_alone():
    limits = MpsLimits(50, 1024)
    unlimited = SharingPoint(TIME_SLICING, 2, limits=limits).parameters()
    assert unlimited == {"mode": "time_slicing", "replicas": 2}
    limited = {"form": "jobs", "mps_threads": 50, "mps_memory_mib": 1024}
    named = SharingPoint(MPS, 2, form="jobs", limits=limits).parameters()
    assert named == {"mode": "mps", "replicas": 2, **limited}
    assert limits.memory_bytes == 2**30


ONE_MODE = "allows only one mode, time_slicing or mps, but --modes is"
HANG = (Disturbance.HANG,)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"modes": (TIME_SLICING,), "mps_threads": 5},
            "--mps_threads is 5, but --modes includes only time_slicing: add mps, or leave the "
            "limit",
        ),
        (
            {"replicas": (1, 49)},
            "--replicas includes 49, but MPS supports at most 48 clients per GPU: use 1 to 48, or",
        ),
        ({"modes": (MPS,), "replicas": (48,)}, None),
        ({"modes": (TIME_SLICING,), "replicas": (100,)}, None),
        ({"form": "jobs"}, f"--form jobs {ONE_MODE} exclusive"),
        ({"form": "pods", "modes": (SharingMode.STREAMS,)}, f"--form pods {ONE_MODE} streams"),
        (
            {"form": "jobs", "modes": (MPS,)},
            "--form jobs allows only one replica count, with one replica per job or pod, "
            "but --replicas is 1,2",
        ),
        (
            {"form": "jobs", "modes": (MPS,), "replicas": (2,), "disturbances": HANG},
            "--disturbances require --form processes, not jobs",
        ),
    ],
)
def test_what_contradicts_itself_is_refused(changes, message):
    found = SharingOptions(**changes).contradiction(lambda name: f"--{name}")
    assert found.startswith(message) if message else found is None
