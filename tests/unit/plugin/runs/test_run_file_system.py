"""A run's file system: stood up step by step, found again, and collapsed."""

import pytest

from batchmark.aws import file_systems
from batchmark.core.errors import LayerError
from batchmark.runs.run_file_system import RunFileSystem, RunOfDag
from tests.builders.scaling import RUN_ID, stack
from tests.stand_ins.batch import client_error
from tests.stand_ins.file_systems import FakeFsx, FakeSsm

SETTINGS = stack().file_system
KEY = "arn:aws:kms:us-east-1:111122223333:key/0a1b2c3d"
RUN = RunOfDag(
    installation="batchmark", dag_id="distributed_training_benchmark", run_id=RUN_ID, generation=0
)
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


def test_nodes_can_mount_it_once_it_and_its_link_are_available(account):
    layer = account.of()
    waits = finish(layer.stand_up)
    assert account.named == layer.file_system_id == "fs-00000000000000001"
    assert waits == [
        "File system fs-00000000000000001 is CREATING",
        "s3://results/images is being linked to fs-00000000000000001",
    ]
    assert account.ssm.history == [layer.file_system_id], "not before its files can be read"


def test_it_is_made_by_the_stacks_settings_and_tagged_as_jobs_are(account):
    finish(account.of().stand_up)
    made, link = account.fsx.requests
    assert (made["FileSystemType"], made["FileSystemTypeVersion"]) == ("LUSTRE", "2.15")
    assert (made["StorageCapacity"], made["SubnetIds"]) == (1200, [SETTINGS.subnet])
    assert made["SecurityGroupIds"] == [SETTINGS.security_group]
    assert made["LustreConfiguration"] == {"DeploymentType": "SCRATCH_2"}
    assert "KmsKeyId" not in made
    assert file_systems.tags_of(made) == {
        "Project": "batchmark",
        "batchmark:installation": "batchmark",
        "batchmark:run": RUN_ID,
        "batchmark:run-id": RUN_ID,
        "batchmark:dag": "distributed_training_benchmark",
    }
    assert (link["FileSystemPath"], link["DataRepositoryPath"]) == (
        "/images",
        "s3://results/images",
    )
    assert link["BatchImportMetaDataOnCreate"]
    assert link["Tags"] == made["Tags"]


def test_a_persistent_one_has_its_throughput_and_key(account):
    changes = {"deployment_type": "PERSISTENT_2", "throughput": 250, "kms_key_arn": KEY}
    finish(account.of(settings=SETTINGS.model_copy(update=changes)).stand_up)
    made, _ = account.fsx.requests
    wanted = {"DeploymentType": "PERSISTENT_2", "PerUnitStorageThroughput": 250}
    assert (made["LustreConfiguration"], made["KmsKeyId"]) == (wanted, KEY)


@pytest.mark.parametrize("steps_done", [1, 2, 3, 4])
def test_another_process_goes_on_with_what_it_finds(account, steps_done):
    first = account.of()
    for _ in range(steps_done):
        first.stand_up()
    second = account.of()
    finish(second.stand_up)
    assert list(account.fsx.there) == [second.file_system_id] == [account.named]


def test_a_lost_answer_makes_no_second_one(account):
    account.fsx.loses_answer = True
    account.fsx.failures = {"create_file_system": [client_error("InternalFailure", 500)]}
    layer = account.of()
    with pytest.raises(Exception, match="InternalFailure"):
        layer.stand_up()
    finish(layer.stand_up)
    assert len(account.fsx.there) == 1


def test_a_cleared_task_makes_one_of_its_own():
    tokens = {RUN.model_copy(update={"generation": number}).token for number in range(3)}
    assert len({*tokens, OTHER.token}) == 4
    assert all(len(token) <= 63 for token in tokens)


def test_while_an_earlier_one_with_its_token_ends_none_is_made(account):
    first = account.of()
    finish(first.stand_up)
    first.collapse()
    second = account.of()
    assert second.stand_up() == "An earlier try's file system is being deleted"
    finish(first.collapse)
    finish(second.stand_up)
    assert account.named == second.file_system_id == "fs-00000000000000002"


def test_a_file_system_that_fails_says_why(account):
    account.fsx.becomes = "FAILED"
    with pytest.raises(LayerError, match=r"fs-0+1 is FAILED: the subnet has no free address"):
        finish(account.of().stand_up)
    assert account.named == "none"


def test_a_link_that_is_misconfigured_says_why(account):
    account.fsx.link_becomes = "MISCONFIGURED"
    message = r"the link of fs-0+1 to s3://results/images is MISCONFIGURED: the subnet has no free"
    with pytest.raises(LayerError, match=message):
        finish(account.of().stand_up)
    assert account.named == "none"


def test_settings_that_aws_refuses_are_named(account):
    account.fsx.failures = {"create_file_system": [client_error("ServiceLimitExceeded")]}
    message = r"AWS refuses the file system: .*ServiceLimitExceeded.*terraform/stacks/multi_node"
    with pytest.raises(LayerError, match=message):
        account.of().stand_up()


def test_one_that_somebody_deleted_meanwhile_is_named(account):
    layer = account.of()
    layer.stand_up()
    account.fsx.there.clear()
    with pytest.raises(LayerError, match=r"fs-0+1 is gone: somebody deleted it"):
        layer.stand_up()


def test_collapsing_takes_its_name_away_before_it_is_deleted(account):
    finish(account.of().stand_up)
    layer = account.of()
    delete = account.fsx.delete_file_system
    account.fsx.delete_file_system = lambda **asked: (seen.append(account.named), delete(**asked))
    seen = []
    waits = finish(layer.collapse)
    assert seen == ["none"]
    assert waits == ["File system fs-00000000000000001 is being deleted"]
    assert account.fsx.there == {}
    assert len(account.fsx.deleted) == 1
    assert finish(layer.collapse) == [], "nothing is left to do"


def test_collapsing_touches_no_other_runs(account):
    other = account.of(OTHER)
    finish(other.stand_up)
    finish(account.of().collapse)
    assert list(account.fsx.there) == [other.file_system_id]
    assert account.named == other.file_system_id


@pytest.mark.parametrize("steps_done", [1, 2, 3, 4])
def test_what_is_only_half_there_is_collapsed_too(account, steps_done):
    layer = account.of()
    for _ in range(steps_done):
        layer.stand_up()
    finish(account.of().collapse)
    assert account.fsx.there == {}
    assert account.named == "none"


def test_a_deletion_that_is_refused_is_tried_again(account):
    """As one of a file system that is still being created."""
    account.of().stand_up()
    account.fsx.failures = {"delete_file_system": [client_error("BadRequest")]}
    layer = account.of()
    assert "can't be deleted yet" in layer.collapse()
    assert not layer.is_ending
    finish(layer.collapse)
    assert account.fsx.there == {}
    assert layer.is_ending


def test_one_that_is_gone_in_between_counts_as_deleted(account):
    finish(account.of().stand_up)
    account.fsx.failures = {"delete_file_system": [client_error("FileSystemNotFound")]}
    layer = account.of()
    layer.collapse()
    account.fsx.there.clear()
    assert layer.collapse() is None


def test_of_all_generations(account):
    finish(account.of().stand_up)
    finish(account.of(RUN.model_copy(update={"generation": 1})).stand_up)
    finish(account.of().collapse)
    assert account.fsx.there == {}
