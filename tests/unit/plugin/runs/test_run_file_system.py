"""A run's file system: stood up step by step, found again, and collapsed."""

import pytest

from batchmark.aws import file_systems
from batchmark.core.errors import LayerError, PlanError
from batchmark.runs.run_file_system import RunFileSystem, check_tags
from tests.builders.scaling import RUN, RUN_ID, stack
from tests.stand_ins.batch import client_error
from tests.stand_ins.failing_calls import failing
from tests.stand_ins.file_systems import FakeFsx, FakeSsm

SETTINGS = stack().file_system
KEY = "arn:aws:kms:us-east-1:111122223333:key/0a1b2c3d"
OTHER = RUN.model_copy(update={"run_id": "another"})


class Account:
    def __init__(self, **fields):
        self.fsx, self.ssm = FakeFsx(**fields), FakeSsm(SETTINGS.id_parameter)

    def of(self, run=RUN, settings=SETTINGS):
        return RunFileSystem(self.fsx, self.ssm, settings, run)

    @property
    def named(self):
        return self.ssm.values[SETTINGS.id_parameter]


@pytest.fixture
def account():
    return Account()


def finish(step, most=20):
    """Repeat a step until it is done; what it waited for, each once."""
    waits = []
    for _ in range(most):
        seen = step()
        if seen is None:
            return list(dict.fromkeys(waits))
        waits.append(seen)
    raise AssertionError(f"it never ends: {waits}")


def stood_up(layer):
    """One that nodes mount."""
    finish(layer.stand_up)
    layer.name_own()
    return layer


def collapsed(layer, ending="collapse"):
    """What was waited for until nothing is left."""
    waits = finish(getattr(layer, ending))
    assert layer._fsx.there == {}
    return waits


def test_it_is_up_and_can_be_named_once_its_link_has_imported_the_names(account):
    layer = account.of()
    with pytest.raises(LayerError, match="there is no file system"):
        layer.name_own()
    waits = finish(layer.stand_up)
    assert waits == [
        "File system fs-00000000000000001 is CREATING",
        "s3://results/images is being linked to fs-00000000000000001",
        "The file names in s3://results/images are being imported",
    ]
    assert account.ssm.history == [], "nodes are told apart"
    layer.name_own()
    assert account.named == layer.file_system_id == "fs-00000000000000001"


@pytest.mark.parametrize(("looks", "seen"), [(3, True), (100, False)])
def test_an_import_that_is_listed_late_is_waited_for_a_while(account, looks, seen):
    account.fsx.hides_imports = looks
    waits = finish(account.of().stand_up)
    assert "The import of file names from s3://results/images has not started" in waits
    assert ("The file names in s3://results/images are being imported" in waits) is seen


def test_it_is_made_by_the_stacks_settings_and_tagged_as_jobs_are(account):
    finish(account.of().stand_up)
    made, link = account.fsx.requests
    assert (
        made.items()
        >= {
            "FileSystemType": "LUSTRE",
            "FileSystemTypeVersion": "2.15",
            "StorageCapacity": 1200,
            "SubnetIds": [SETTINGS.subnet],
            "SecurityGroupIds": [SETTINGS.security_group],
            "LustreConfiguration": {"DeploymentType": "SCRATCH_2"},
        }.items()
    )
    assert "KmsKeyId" not in made
    assert file_systems.tags_of(made) == {
        "Project": "batchmark",
        "batchmark:installation": "batchmark",
        "batchmark:run": RUN_ID,
        "batchmark:run-id": RUN_ID,
        "batchmark:dag": "distributed_training_benchmark",
        "batchmark:generation": "0",
    }
    assert (link["FileSystemPath"], link["DataRepositoryPath"]) == (
        SETTINGS.folder,
        SETTINGS.repository,
    )
    assert link["BatchImportMetaDataOnCreate"]
    assert link["Tags"] == made["Tags"]
    account = Account()  # for one that is persistent, with its throughput and key
    changes = {"deployment_type": "PERSISTENT_2", "throughput": 250, "kms_key_arn": KEY}
    finish(account.of(settings=SETTINGS.model_copy(update=changes)).stand_up)
    made, _ = account.fsx.requests
    wanted = {"DeploymentType": "PERSISTENT_2", "PerUnitStorageThroughput": 250}
    assert (made["LustreConfiguration"], made["KmsKeyId"]) == (wanted, KEY)


@pytest.mark.parametrize("steps_done", [1, 2, 3, 4])
def test_another_process_goes_on_with_what_it_finds_or_collapses_it(steps_done):
    for ends in (False, True):
        account = Account()
        first = account.of()
        for _ in range(steps_done):
            first.stand_up()
        if ends:
            collapsed(account.of())
            assert account.named == "none"
        else:
            second = stood_up(account.of())
            assert list(account.fsx.there) == [second.file_system_id] == [account.named]


def test_a_lost_answer_makes_no_second_one(account):
    account.fsx.loses_answer = True
    account.fsx.failures = {"create_file_system": [client_error("InternalFailure", 500)]}
    layer = account.of()
    with pytest.raises(Exception, match="InternalFailure"):
        layer.stand_up()
    finish(layer.stand_up)
    assert len(account.fsx.there) == 1


def test_while_an_earlier_one_with_its_token_ends_none_is_made_but_for_a_cleared_task(account):
    first = stood_up(account.of())
    first.collapse()
    second = account.of()
    assert second.stand_up() == "The file system of an earlier attempt is being deleted"
    finish(first.collapse)
    stood_up(second)
    assert account.named == second.file_system_id == "fs-00000000000000002"
    tokens = {RUN.model_copy(update={"generation": number}).token for number in range(3)}
    assert len({*tokens, OTHER.token}) == 4
    links = {RUN.link_token(f"fs-{number}") for number in range(3)}
    assert len(links) == 3
    assert all(len(token) <= 63 for token in tokens | links)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"becomes": "FAILED"}, "fs-0+1 is FAILED: the subnet has no free address"),
        ({"link_becomes": "MISCONFIGURED"}, "from fs-0+1 to s3://results/images is MISCONFIGURED"),
        ({"import_becomes": "FAILED"}, "s3://results/images could not be imported into fs-0+1: "),
        (
            {"failures": {"create_file_system": [client_error("ServiceLimitExceeded")]}},
            r"AWS rejected the file system: .*ServiceLimitExceeded.*terraform/stacks/multi_node",
        ),
    ],
)
def test_what_does_not_come_up_says_why(account, fields, message):
    vars(account.fsx).update(fields)
    with pytest.raises(LayerError, match=message):
        finish(account.of().stand_up)
    assert account.named == "none"


def test_one_that_somebody_deleted_meanwhile_is_named(account):
    layer = account.of()
    layer.stand_up()
    account.fsx.there.clear()
    with pytest.raises(LayerError, match=r"fs-0+1 was deleted by someone else"):
        layer.stand_up()


def test_collapsing_takes_its_name_away_before_it_is_deleted_and_touches_no_other_runs(account):
    stood_up(account.of())
    layer = account.of()
    delete = account.fsx.delete_file_system
    account.fsx.delete_file_system = lambda **asked: (seen.append(account.named), delete(**asked))
    seen = []
    assert collapsed(layer) == ["File system fs-00000000000000001 is being deleted"]
    assert seen == ["none"]
    other = stood_up(account.of(OTHER))
    assert finish(layer.collapse) == [], "nothing is left to do"
    assert list(account.fsx.there) == [other.file_system_id] == [account.named]


def test_a_deletion_that_is_refused_is_tried_again_unless_it_is_gone(account):
    """As one of a file system that is still being created."""
    account.of().stand_up()
    account.fsx.failures = {"delete_file_system": [client_error("BadRequest")]}
    layer = account.of()
    assert "can't be deleted yet" in layer.collapse()
    assert not layer.is_ending
    collapsed(layer)
    assert layer.is_ending
    finish(account.of().stand_up)
    account.fsx.failures = {"delete_file_system": [client_error("FileSystemNotFound")]}
    layer = account.of()
    layer.collapse()
    account.fsx.there.clear()
    assert layer.collapse() is None


@pytest.mark.parametrize("named", [0, 1])
def test_a_generation_removes_its_own_alone(account, named):
    """A task that was cleared ends after the next one has begun, and jobs may need the other's."""
    first = account.of()
    second = account.of(RUN.model_copy(update={"generation": 1}))
    for layer in (first, second):
        finish(layer.stand_up)
    (first, second)[named].name_own()
    finish(account.of().remove)
    assert list(account.fsx.there) == [second.file_system_id]
    assert account.named == (second.file_system_id if named else "none")


@pytest.mark.parametrize("ending", ["collapse", "remove"])
@pytest.mark.parametrize("operation", ["get_parameter", "put_parameter"])
def test_a_parameter_that_can_not_be_set_keeps_no_file_system(account, operation, ending):
    stood_up(account.of())
    layer = account.of()
    setattr(account.ssm, operation, failing(client_error("ParameterNotFound")))
    collapsed(layer, ending)
    assert "The parameter that nodes read could not be set to 'none': " in layer.parameter_problem
    assert "ParameterNotFound" in layer.parameter_problem


def test_all_generations_are_collapsed_also_without_the_settings(account):
    for generation in range(2):
        stood_up(account.of(RUN.model_copy(update={"generation": generation})))
    layer = account.of(settings=None)
    collapsed(layer)
    assert "settings of the run's file system are unknown" in layer.parameter_problem


def test_during_an_import_it_is_not_deleted_and_afterwards_it_is():
    account = Account(steps=4)
    layer = account.of()
    while not account.fsx.imports:
        layer.stand_up()
    first, *later = collapsed(account.of())
    assert "can't be deleted yet" in first
    assert later == ["File system fs-00000000000000001 is being deleted"]


def test_a_run_id_that_no_tag_takes_is_refused():
    for run_id in ("manual__2026-11-26T09:00:00+00:00", RUN_ID, "gr\u00fcn/1 a@b"):
        check_tags(run_id)
    for run_id, character in (("a~b", "~"), ("a&b~", "&")):
        with pytest.raises(PlanError, match=f"'{run_id}' contains '{character}', which AWS does"):
            check_tags(run_id)
