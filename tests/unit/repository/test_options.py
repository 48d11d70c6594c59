"""Each option is declared once: form, plan, command line and what they refuse agree."""

import argparse

import pytest
from airflow.sdk.exceptions import ParamValidationError

from batchmark.core.errors import PlanError
from batchmark.core.own_jobs import ComparisonRun, OwnJobRun
from batchmark.core.run import RunPlan
from batchmark.orchestration.forms import option_params
from batchmark.runs.plans.options import parse_options
from batchmark_job.errors import InputError
from batchmark_job.image_set.manifest import Settings
from batchmark_job.option_values import add_options, parse
from batchmark_job.result.options import arguments, flags, schemas
from batchmark_job.result.scaling_options import ScalingOptions, ScalingRun
from batchmark_job.result.sharing import Disturbance, SharingMode
from batchmark_job.result.sharing_options import SharingOptions
from batchmark_job.result.version import GivenVersion
from tests.builders.clusters import planned as planned_pods
from tests.builders.scaling import planned

FORMS = (SharingOptions, ScalingRun, OwnJobRun, ComparisonRun, GivenVersion)
COMMANDS = (SharingOptions, ScalingOptions, Settings, GivenVersion)
NOT_BY_DEFAULT = {
    SharingOptions: {
        "task": "matmul",
        "modes": (SharingMode.MPS, SharingMode.STREAMS),
        "replicas": (2, 7),
        "disturbances": (Disturbance.HANG, Disturbance.CRASH),
        "mps_threads": 25,
        "mps_memory_mib": 1024,
    },
    ScalingOptions: {
        "image": 64,
        "steps": 10,
        "data": ("synthetic", "files"),
        "all_reduce_mib": (),
        "devices": 8,
        "batches": (64, 16),
        "passes": ("warm",),
        "settings": ScalingRun(learning_rate=0.4, epochs=45).settings,
        "varied": ("learning_rate", "epochs"),
    },
    GivenVersion: {"commit": "3f2a91c", "branch": "main", "label": "a release"},
    Settings: {"count": 4, "size": 16, "shards": 2, "classes": 3, "seed": 7},
}


def parsed(model, *words, **more):
    parser = argparse.ArgumentParser()
    parser.add_argument("--axis", action="append")
    add_options(parser, model)
    return parse(model, parser.parse_args(words), **more)


def of_numbers(model):
    """The options that are numbers or lists of them, with a number that is too small."""
    for name, schema in schemas(model).items():
        each = schema.get("items", schema)
        if {"minimum", "exclusiveMinimum"} & each.keys():
            yield name, each.get("minimum", 1) - 1, "items" in schema


@pytest.mark.parametrize("model", FORMS)
def test_the_defaults_of_the_form_are_those_of_the_plan(model):
    filled_in = {name: field.resolve() for name, field in option_params(model).items()}
    if model is SharingOptions:
        assert filled_in.pop("axes") == "batch=32"
    assert parse_options(model, filled_in) == model()


@pytest.mark.parametrize("model", COMMANDS)
def test_a_job_is_told_what_was_planned(model):
    for options in (model(), model(**NOT_BY_DEFAULT[model])):
        words = arguments(options)
        assert set(words) & {"--axis"} == ({"--axis"} if model is SharingOptions else set())
        assert parsed(model, *words) == options
    assert parsed(model) == model(), "without words it has the defaults"
    assert parsed(ScalingOptions, nodes=4).nodes == 4


def test_a_field_may_be_left_empty_where_nothing_is_something():
    empty = parse_options(ScalingRun, {"devices": None, "all_reduce_mib": None, "study": None})
    assert (empty.devices, empty.all_reduce_mib, empty.study) == (None, (), ())
    types = {
        name: field.schema["type"]
        for model in FORMS
        for name, field in option_params(model).items()
    }
    assert {name for name, kind in types.items() if "null" in kind} == {
        *("axes", "disturbances", "mps_threads", "mps_memory_mib"),
        *("devices", "all_reduce_mib", "study"),
        *("job", "sizes", "targets", "parameter", "deadline_seconds"),
        *GivenVersion.model_fields,
    }


@pytest.mark.parametrize("model", FORMS)
def test_form_and_plan_refuse_the_same_numbers(model):
    fields = option_params(model)
    for name, bad, is_list in of_numbers(model):
        value = [bad] if is_list else bad
        with pytest.raises(ParamValidationError):
            fields[name].resolve(value)
        with pytest.raises(PlanError, match=f"^{name} {bad} is out of range; use "):
            parse_options(model, {name: value})


@pytest.mark.parametrize("model", COMMANDS)
def test_the_command_refuses_them_too_under_its_own_names(model):
    names = flags(model)
    for name, bad, _ in of_numbers(model):
        if name in names and bad >= 0:
            with pytest.raises(InputError, match=f"^{names[name]} {bad}.* is out of range; use "):
                parsed(model, names[name], str(bad))


@pytest.mark.parametrize(
    ("model", "given", "problem"),
    [
        (SharingOptions, {"modes": ("mig",)}, "unknown modes 'mig'; known: exclusive, time_slic"),
        (SharingOptions, {"modes": ()}, "modes is empty; specify at least one value, such as ex"),
        (SharingOptions, {"replicas": ("five",)}, "replicas expects whole numbers, got 'five'"),
        (SharingOptions, {"replicas": (True,)}, "replicas expects whole numbers, got True"),
        (SharingOptions, {"replicas": ()}, "replicas is empty; specify at least one value, such"),
        (SharingOptions, {"mps_memory_mib": 0}, "mps_memory_mib 0 is out of range; use 1 or more"),
        (ScalingRun, {"momentum": "x"}, "momentum expects numbers, got 'x'"),
        (ScalingRun, {"learning_rate": 2e6}, "learning_rate 2000000.0 is out of range; use a num"),
        (ScalingRun, {"dtype": "float16"}, "unknown dtype 'float16'; known: suite, bfloat16, floa"),
        (ScalingRun, {"study": ({"epochs": 1},) * 21}, "study has 21 values; use at most 20"),
        (OwnJobRun, {"sizes": (True,)}, "sizes expects numbers, got True"),
        (OwnJobRun, {"sizes": (64, "64 px")}, "sizes expects numbers, got '64 px'"),
        (OwnJobRun, {"sizes": range(1, 22)}, "sizes has 21 values; use at most 20"),
        (ScalingRun, {"study": {"epochs": 1}}, "study: Input should be a valid tuple, got {'ep"),
    ],
)
def test_what_is_wrong_is_said_with_the_value_and_the_fix(model, given, problem):
    with pytest.raises(PlanError) as error:
        parse_options(model, given)
    assert str(error.value).startswith(problem)


def test_a_plan_is_read_as_it_was_written():
    plan = RunPlan(jobs=(*planned(study=[{"epochs": 45}]), *planned_pods()))
    assert RunPlan.model_validate_json(plan.model_dump_json()) == plan


@pytest.mark.parametrize(("reads_cold", "passes"), [(True, ("cold", "warm")), (False, ("warm",))])
def test_a_plan_of_an_older_release_says_otherwise_who_reads_cold(reads_cold, passes):
    older = ScalingOptions(nodes=4).model_dump(mode="json", exclude={"passes"})
    assert ScalingOptions.model_validate(older | {"reads_cold": reads_cold}).passes == passes
