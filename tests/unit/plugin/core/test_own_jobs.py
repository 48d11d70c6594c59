"""What Terraform publishes of own jobs."""

import pytest

from batchmark.core.errors import ConfigError
from batchmark.core.own_jobs import JobAxis, parse_own_jobs


@pytest.mark.parametrize("name", ["start", "metric", "unit", "better"])
def test_no_axis_is_called_as_what_results_have(name):
    with pytest.raises(ValueError, match="start, metric, unit, better are reserved names"):
        JobAxis(parameter=name, sizes=[1])


def test_whole_sizes_stay_whole():
    assert [str(size) for size in JobAxis(parameter="n", sizes=[64, 0.5]).sizes] == ["64", "0.5"]


def test_without_own_jobs_the_error_says_how_there_are_some():
    with pytest.raises(ConfigError, match="set own_jobs in Terraform, run `terraform apply`"):
        parse_own_jobs(None)
