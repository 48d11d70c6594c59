"""What the forms offer and take."""

import json

import pytest
from airflow.sdk.exceptions import ParamValidationError

from batchmark.orchestration import forms


def test_targets_are_chosen_from_those_that_the_environment_names(monkeypatch):
    monkeypatch.setenv("BATCHMARK_TARGETS", "c5.2xlarge,g5.xlarge")
    param = forms.targets_param()
    assert param.schema["examples"] == ["c5.2xlarge", "g5.xlarge"]
    assert param.description == "Targets; by default, all targets created by Terraform."
    assert param.resolve() == []
    params = forms.suite_params(repeats=1, fewest_repeats=1, about_repeats="", max_cost_usd=1)
    named = "except those whose jobs share an instance."
    assert params["targets"].description.endswith(named)
    everything = "by default, all targets created by Terraform."
    assert forms.sharing_params()["targets"].description.endswith(everything)


@pytest.mark.parametrize("named", [None, ""])
def test_else_they_are_typed(monkeypatch, named):
    monkeypatch.delenv("BATCHMARK_TARGETS", raising=False)
    if named is not None:
        monkeypatch.setenv("BATCHMARK_TARGETS", named)
    param = forms.targets_param()
    assert "examples" not in param.schema
    assert "one per line" in param.description
    assert param.resolve(["g5.xlarge"]) == ["g5.xlarge"]


def test_own_jobs_and_their_sizes_are_chosen_from_those_that_the_environment_names(monkeypatch):
    monkeypatch.setenv("BATCHMARK_OWN_JOBS", "thumbnails,transcode")
    job = forms.own_job_params()["job"]
    assert job.schema["examples"] == ["thumbnails", "transcode"]
    assert job.resolve() == "thumbnails"
    assert job.resolve("another") == "another", "Airflow may know of it later than Terraform"
    monkeypatch.delenv("BATCHMARK_OWN_JOBS")
    job = forms.own_job_params()["job"]
    assert "examples" not in job.schema
    assert job.resolve() is None

    def job(*sizes):
        return {"command": ["a"], "axis": {"parameter": "mb", "sizes": sizes} if sizes else None}

    told = {"convert": job(1048576, 256, 0.5), "train": job(), "scan": job(256)}
    monkeypatch.setenv("BATCHMARK_OWN_JOBS", json.dumps(told))
    params = forms.own_job_params()
    assert params["job"].schema["examples"] == ["convert", "train", "scan"]
    sizes = params["sizes"]
    assert sizes.schema["examples"] == ["0.5", "256", "1048576"]
    assert sizes.schema["values_display"]["256"] == "256 (convert, scan)"
    assert "per line" not in sizes.description
    assert sizes.resolve(["256"]) == ["256"], "Airflow's form gives what was chosen as text"


@pytest.mark.parametrize("told", ["", "{", '{"a": 1}', '{"a": {"axis": {"sizes": ["x"]}}}'])
def test_where_no_jobs_are_known_both_are_typed_line_by_line(monkeypatch, told):
    monkeypatch.setenv("BATCHMARK_OWN_JOBS", told)
    params = forms.own_job_params()
    sizes = params["sizes"]
    assert "examples" not in sizes.schema | params["job"].schema
    # With a type other than string, Airflow's form is a JSON editor.
    assert "type" not in sizes.schema["items"]
    assert "one number per line" in sizes.description
    assert sizes.resolve(["256", ""]) == ["256", ""]


@pytest.mark.parametrize(
    ("params", "name", "value", "message"),
    [
        (forms.own_job_params, "job", "Thumb nails", "does not match"),
        (forms.own_job_params, "sizes", "64", "'64' is not of type 'array'"),
        (forms.comparison_params, "name", "My job", "does not match"),
        (forms.comparison_params, "sides", ["a"], "'a' is not of type 'object'"),
        (forms.comparison_params, "parameter", "a b", "does not match"),
    ],
)
def test_the_forms_refuse_what_the_dags_can_not_do(params, name, value, message):
    with pytest.raises(ParamValidationError, match=message):
        params()[name].resolve(value)
