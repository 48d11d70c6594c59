"""FSx of an account in memory, with a clock that the test sets."""

from types import SimpleNamespace

import pytest
from botocore.exceptions import ClientError
from moto.fsx.models import fsx_backends
from moto.s3.models import s3_backends

from local_cloud.file_systems import troubles
from local_cloud.file_systems.folders import Folders
from local_cloud.file_systems.models import FileSystemsBackend
from tests.stand_ins.moto_account import moto_account, moto_client

ACCOUNT, REGION = "123456789012", "us-east-1"
SECONDS = 300.0

fsx_backends.backend = FileSystemsBackend


class Account:
    """FSx, and what file systems need of other services."""

    def __init__(self):
        self.now = 1_000_000.0
        self.ec2 = moto_client("ec2", region_name=REGION)
        self.s3 = moto_client("s3", region_name=REGION)
        self.fsx = moto_client("fsx", region_name=REGION)
        subnet = self.ec2.describe_subnets()["Subnets"][0]
        self.subnet, self.vpc = subnet["SubnetId"], subnet["VpcId"]

    def wait(self, seconds=SECONDS):
        self.now += seconds

    def request(self, deployment="SCRATCH_2", capacity=1200, lustre=None, **fields):
        request = {
            "FileSystemType": "LUSTRE",
            "StorageCapacity": capacity,
            "SubnetIds": [self.subnet],
            "FileSystemTypeVersion": "2.15",
            "LustreConfiguration": {"DeploymentType": deployment, **(lustre or {})},
            **fields,
        }
        return {name: value for name, value in request.items() if value is not None}

    def create(self, *arguments, **fields):
        """The id of a file system that is being created."""
        made = self.fsx.create_file_system(**self.request(*arguments, **fields))
        return made["FileSystem"]["FileSystemId"]

    def available(self, *arguments, **fields):
        file_system_id = self.create(*arguments, **fields)
        self.wait()
        assert self.lifecycle(file_system_id) == "AVAILABLE"
        return file_system_id

    def describe(self, file_system_id):
        (found,) = self.fsx.describe_file_systems(FileSystemIds=[file_system_id])["FileSystems"]
        return found

    def lifecycle(self, file_system_id):
        return self.describe(file_system_id)["Lifecycle"]

    def bucket(self, name="images", **objects):
        self.s3.create_bucket(Bucket=name)
        for key, body in objects.items():
            self.s3.put_object(Bucket=name, Key=key.replace("__", "/"), Body=body)
        return name

    def associate(self, file_system_id, path="/images", repository="s3://images/", **fields):
        return self.fsx.create_data_repository_association(
            FileSystemId=file_system_id,
            FileSystemPath=path,
            DataRepositoryPath=repository,
            **fields,
        )["Association"]["AssociationId"]

    def association(self, file_system_id):
        of_it = [{"Name": "file-system-id", "Values": [file_system_id]}]
        listed = self.fsx.describe_data_repository_associations(Filters=of_it)
        (found,) = listed["Associations"]
        return found


@pytest.fixture(scope="module")
def in_moto():
    """Making the default network takes half a second."""
    with moto_account():
        yield Account()


@pytest.fixture
def account(in_moto, tmp_path, monkeypatch):
    """An account without file systems and buckets; changes take five minutes."""
    module = "local_cloud.file_systems.models"
    monkeypatch.setattr(FileSystemsBackend, "seconds", SECONDS)
    monkeypatch.setattr(FileSystemsBackend, "folders", Folders(tmp_path))
    monkeypatch.setattr(f"{module}.later", lambda *_: None)
    monkeypatch.setattr(f"{module}.time", SimpleNamespace(time=lambda: in_moto.now))
    yield in_moto
    troubles.UNDER_WAY.clear()
    fsx_backends[ACCOUNT][REGION].reset()
    s3_backends[ACCOUNT]["aws"].reset()


@pytest.fixture
def trouble():
    """Begin a fault of file systems."""

    def begin(kind, **fields):
        troubles.UNDER_WAY.append(troubles.Trouble(kind, **fields))

    return begin


@pytest.fixture
def refused():
    """The code of the error that a call is refused with; its message must contain this."""

    def check(message, call, **request):
        with pytest.raises(ClientError) as error:
            call(**request)
        found = error.value.response["Error"]
        assert message in found["Message"]
        return found["Code"]

    return check
