"""A run's file system, as the DAG stands it up and collapses it, in the local cloud."""

import pytest

from batchmark.core.clusters.multi_node import FileSystem
from batchmark.runs.run_file_system import RunFileSystem, RunOfDag
from tests.builders.scaling import FILE_SYSTEM
from tests.stand_ins.moto_account import moto_client

RUN = RunOfDag(installation="batchmark", dag_id="any", run_id="run", generation=0)


@pytest.fixture
def made(account):
    """Make the file system of a run, in another process each time."""
    ssm = moto_client("ssm", region_name="us-east-1")
    ssm.put_parameter(Name=FILE_SYSTEM["id_parameter"], Value="none", Type="String", Overwrite=True)
    (group,) = account.ec2.describe_security_groups(GroupNames=["default"])["SecurityGroups"]
    account.bucket("results", images__a="text")
    settings = FileSystem.model_validate(
        FILE_SYSTEM | {"subnet": account.subnet, "security_group": group["GroupId"]}
    )

    def make(run=RUN):
        return RunFileSystem(account.fsx, ssm, settings, run)

    make.named = lambda: ssm.get_parameter(Name=settings.id_parameter)["Parameter"]["Value"]
    return make


def finish(account, step):
    waits = 0
    while step() is not None:
        waits += 1
        assert waits < 10
        account.wait()
        account.fsx.describe_file_systems()  # in place of its timer, which ends what is due
    return waits


def test_it_comes_up_and_is_gone_again(account, made):
    layer = made()
    assert finish(account, layer.stand_up) >= 3
    folder = account.folder(layer.file_system_id)
    assert [path.name for path in (folder / "images").iterdir()] == ["a"]
    layer.name_own()
    assert made.named() == layer.file_system_id
    assert finish(account, made().collapse) >= 1
    assert made.named() == "none"
    assert account.fsx.describe_file_systems()["FileSystems"] == []


def test_the_same_run_finds_its_own_and_after_its_end_makes_another(account, made):
    first = made()
    finish(account, first.stand_up)
    again = made()
    finish(account, again.stand_up)
    assert again.file_system_id == first.file_system_id
    again.collapse()
    later = made()
    finish(account, later.stand_up)
    assert later.file_system_id != first.file_system_id
