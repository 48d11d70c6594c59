import pytest

from batchmark_job.distributed.ranks.schedule import learning_rate
from batchmark_job.result.scaling import TrainingSettings


def settings(**changes):
    given = {
        "learning_rate": 2.0,
        "momentum": 0.9,
        "weight_decay": 1e-4,
        "epochs": 90,
        "warmup_epochs": 10,
        "images_per_epoch": 1000,
    }
    return TrainingSettings(**(given | changes))


@pytest.mark.parametrize(
    ("epoch", "rate"),
    [
        (0.001, 0.0002),
        (5, 1.0),
        (9.999, 1.9998),
        (10, 2.0),
        (50, 0.5),  # half of the 80 epochs are left: a quarter
        (70, 0.125),
        (89, 2.0 / 6400),
        (90, 0.0),
        (120, 0.0),
    ],
)
def test_it_rises_linearly_and_falls_as_a_square(epoch, rate):
    assert learning_rate(settings(), round(1000 * epoch)) == pytest.approx(rate, rel=1e-12)


def test_without_a_warm_up_it_begins_with_the_full_rate():
    assert learning_rate(settings(warmup_epochs=0), 0) == 2.0


@pytest.mark.parametrize("warmup", [90, 100])
def test_a_warm_up_of_all_epochs_or_more_never_divides_by_zero(warmup):
    rates = [learning_rate(settings(warmup_epochs=warmup), images) for images in (45_000, 200_000)]
    assert rates == [2.0 * 45 / warmup, 0.0]
