"""FSx of an account in memory, with a clock that the test sets."""

from types import SimpleNamespace

import pytest
from botocore.exceptions import ClientError
from moto.fsx.models import fsx_backends
from moto.s3.models import s3_backends

from local_cloud.file_systems.folders import Folders
from local_cloud.file_systems.models import FileSystemsBackend
from tests.builders.lustre import Lustre
from tests.stand_ins.moto_account import moto_account, moto_client

ACCOUNT, REGION = "123456789012", "us-east-1"
SECONDS = 300.0

fsx_backends.backend = FileSystemsBackend


class Account(Lustre):
    """FSx, and what file systems need of other services."""

    def __init__(self):
        super().__init__(lambda service: moto_client(service, region_name=REGION))
        self.now = 1_000_000.0
        self.s3 = moto_client("s3", region_name=REGION)

    def wait(self, seconds=SECONDS):
        self.now += seconds

    def available(self, *arguments, **fields):
        file_system_id = self.create(*arguments, **fields)
        self.wait()
        assert self.lifecycle(file_system_id) == "AVAILABLE"
        return file_system_id

    def folder(self, file_system_id):
        return FileSystemsBackend.folders.path(file_system_id)

    def bucket(self, **objects):
        self.s3.create_bucket(Bucket="images")
        for key, body in objects.items():
            self.s3.put_object(Bucket="images", Key=key.replace("__", "/"), Body=body)


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
    fsx_backends[ACCOUNT][REGION].reset()
    s3_backends[ACCOUNT]["aws"].reset()


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
