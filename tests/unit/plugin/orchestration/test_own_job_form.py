"""What the forms of own jobs take, and what they offer."""

import pytest
from airflow.sdk.exceptions import ParamValidationError

from batchmark.orchestration.forms import comparison_params, own_job_params


def test_own_jobs_are_chosen_from_those_that_the_environment_names(monkeypatch):
    monkeypatch.setenv("BATCHMARK_OWN_JOBS", "thumbnails,transcode")
    job = own_job_params()["job"]
    assert job.schema["examples"] == ["thumbnails", "transcode"]
    assert job.resolve() == "thumbnails"
    assert job.resolve("another") == "another", "Airflow may know of it later than Terraform"
    monkeypatch.delenv("BATCHMARK_OWN_JOBS")
    job = own_job_params()["job"]
    assert "examples" not in job.schema
    assert job.resolve() is None


@pytest.mark.parametrize(
    ("params", "name", "value", "message"),
    [
        (own_job_params, "job", "Thumb nails", "does not match"),
        (own_job_params, "sizes", ["64"], "'64' is not of type 'number'"),
        (comparison_params, "name", "My job", "does not match"),
        (comparison_params, "sides", ["a"], "'a' is not of type 'object'"),
        (comparison_params, "parameter", "a b", "does not match"),
    ],
)
def test_the_forms_refuse_what_the_dags_can_not_do(params, name, value, message):
    with pytest.raises(ParamValidationError, match=message):
        params()[name].resolve(value)
