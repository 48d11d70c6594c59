"""Runs of jobs that were not written for Batchmark, and what they left."""

from batchmark.aws.result_bucket import REPORT_JSON
from batchmark.report.model import Report
from batchmark_job.result.document import parse_document
from tests.e2e.quick_job.work import FAILS, MARK, WRONG
from tests.e2e.stacks import store_of

OWN = "own_job_benchmark"
GPU, CPU = "g4dn.xlarge", "c5.2xlarge"
TARGETS = (GPU, CPU)
SIZES, REPEATS = (1, 2), 3
IMAGE = "registry.example.com/team/work:1.4"
SWEEP = {"job": "sweep", "repeats": REPEATS, "deadline_seconds": 600}
CASES = {"job": "cases", "repeats": 1}


def own_jobs(image=IMAGE, sweep="sweep"):
    """Terraform's input: one that goes well at all sizes, and one that goes wrong."""
    return {
        "sweep": {
            "image": image,
            "command": ["python", "work.py", sweep, "Ref::size"],
            "axis": {"parameter": "size", "sizes": list(SIZES)},
            "timeout_seconds": 120,
        },
        "cases": {
            "image": image,
            "command": ["python", "work.py", "case", "Ref::case"],
            "axis": {"parameter": "case", "sizes": [FAILS, WRONG]},
            "check": f'! rm "{MARK.format("$AWS_BATCH_JOB_ID")}"',
            "timeout_seconds": 120,
            "attempts": 1,
        },
    }


def report_of_run(aws, run_id):
    store = store_of(aws, run_id)
    return Report.model_validate_json(store.read(store.prefix + REPORT_JSON))


def documents_of_run(aws, run_id):
    """A run's result documents, as they lie in the bucket."""
    store = store_of(aws, run_id)
    read = map(store.read, store.keys("raw/"))
    return [each for each in map(parse_document, read) if each.run_id == run_id]


def study(report):
    (only,) = report.studies["own_jobs"]
    return only


def figures(report):
    """By side and size."""
    return {
        (side.target.target, figure.place.size): figure
        for side in study(report).sides
        for figure in side.figures
    }


def case_of(documents, case, target):
    """One of its documents: a queue's first job runs its case once more."""
    found, *_ = [
        each
        for each in documents
        if each.target == target and each.measurements[0].parameters["case"] == case
    ]
    return found
