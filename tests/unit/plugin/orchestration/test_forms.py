"""What the forms offer and take."""

import pytest
from airflow.sdk.exceptions import ParamValidationError

from batchmark.orchestration import forms


def test_targets_are_chosen_from_those_that_the_environment_names(monkeypatch):
    monkeypatch.setenv("BATCHMARK_TARGETS", "c5.2xlarge,g5.xlarge")
    param = forms.targets_param()
    assert param.schema["examples"] == ["c5.2xlarge", "g5.xlarge"]
    assert param.description == "Targets; none means all that Terraform made."
    assert param.resolve() == []


@pytest.mark.parametrize("named", [None, ""])
def test_else_they_are_typed(monkeypatch, named):
    monkeypatch.delenv("BATCHMARK_TARGETS", raising=False)
    if named is not None:
        monkeypatch.setenv("BATCHMARK_TARGETS", named)
    param = forms.targets_param()
    assert "examples" not in param.schema
    assert "one per line" in param.description
    assert param.resolve(["g5.xlarge"]) == ["g5.xlarge"]


def test_the_form_says_which_targets_run_only_if_they_are_named():
    of_suites = forms.suite_params(repeats=1, fewest_repeats=1, about_repeats="", max_cost_usd=1)[
        "targets"
    ]
    named = "except those whose jobs share an instance: name these."
    assert of_suites.description.endswith(named)
    everything = "none means all that Terraform made."
    assert forms.sharing_params()["targets"].description.endswith(everything)


def test_own_jobs_are_chosen_from_those_that_the_environment_names(monkeypatch):
    monkeypatch.setenv("BATCHMARK_OWN_JOBS", "thumbnails,transcode")
    job = forms.own_job_params()["job"]
    assert job.schema["examples"] == ["thumbnails", "transcode"]
    assert job.resolve() == "thumbnails"
    assert job.resolve("another") == "another", "Airflow may know of it later than Terraform"
    monkeypatch.delenv("BATCHMARK_OWN_JOBS")
    job = forms.own_job_params()["job"]
    assert "examples" not in job.schema
    assert job.resolve() is None


@pytest.mark.parametrize(
    ("params", "name", "value", "message"),
    [
        (forms.own_job_params, "job", "Thumb nails", "does not match"),
        (forms.own_job_params, "sizes", ["64"], "'64' is not of type 'number'"),
        (forms.comparison_params, "name", "My job", "does not match"),
        (forms.comparison_params, "sides", ["a"], "'a' is not of type 'object'"),
        (forms.comparison_params, "parameter", "a b", "does not match"),
    ],
)
def test_the_forms_refuse_what_the_dags_can_not_do(params, name, value, message):
    with pytest.raises(ParamValidationError, match=message):
        params()[name].resolve(value)
