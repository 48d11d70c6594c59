"""Which tests `make test-quick` takes for a change."""

from pathlib import Path

import pytest

from tests.quick import touched_by


@pytest.mark.parametrize(
    ("changed", "taken"),
    [
        ("plugins/batchmark/analysis/cost.py", {"tests/unit/plugin/analysis/test_cost.py"}),
        ("plugins/batchmark/analysis/has_no_test.py", {"tests/unit/plugin/analysis"}),
        (
            "job_container/batchmark_job/measuring/problem.py",
            {"tests/unit/job/measuring/test_implementation_choice.py"},
        ),
        ("job_container/batchmark_job/machine/nvml.py", {"tests/unit/job/machine/test_nvml.py"}),
        ("local_cloud/recorder.py", {"tests/unit/local_cloud/test_recorder.py"}),
        ("dags/leak_guard.py", {"tests/unit/repository/test_dag_integrity.py"}),
        ("tests/unit/repository/test_quick.py", {"tests/unit/repository/test_quick.py"}),
        ("tests/unit/repository/test_that_was_deleted.py", set()),
        ("README.md", set()),
    ],
)
def test_a_change_takes_the_tests_that_mirror_it(changed, taken):
    assert {str(test) for test in touched_by([Path(changed)])} == taken


def test_a_builder_takes_the_tests_that_import_it():
    taken = {str(test) for test in touched_by([Path("tests/builders/noise.py")])}
    assert "tests/unit/plugin/analysis/judging/test_noise.py" in taken
    assert "tests/unit/local_cloud/test_recorder.py" not in taken
