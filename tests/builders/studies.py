"""The one study of a kind that a run of these jobs has."""

from functools import partial

from batchmark.analysis.comparison import compare
from tests.builders.runs import PRICES, build_run


def study_of(kind, *jobs, lost=(), prices=PRICES):
    (study,) = compare(build_run(*jobs, lost=lost), prices).studies[kind]
    return study


own_study = partial(study_of, "own_jobs")
scaling_study = partial(study_of, "scaling")
shared_task = partial(study_of, "sharing")


def training_of(*jobs):
    (training,) = scaling_study(*jobs).trainings
    return training
