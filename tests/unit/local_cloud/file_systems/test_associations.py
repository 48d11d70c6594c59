"""Data repository associations: what is refused, their life cycle, and the files they bring."""

import pytest

from local_cloud.file_systems.models import FileSystemsBackend, used_backends

ALL = {"BatchImportMetaDataOnCreate": True}


def importing(*events):
    return {"S3": {"AutoImportPolicy": {"Events": list(events)}}}


def folder(file_system_id):
    return FileSystemsBackend.folders.path(file_system_id)


def files(file_system_id):
    root = folder(file_system_id)
    found = [path for path in root.rglob("*") if path.is_file()]
    return {str(path.relative_to(root)): path.read_text() for path in found}


def mount(file_system_id):
    """As a host does."""
    (backend,) = (each for each in used_backends() if file_system_id in each.file_systems)
    backend.mount(file_system_id)


def tasks(account, file_system_id):
    of_it = [{"Name": "file-system-id", "Values": [file_system_id]}]
    return account.fsx.describe_data_repository_tasks(Filters=of_it)["DataRepositoryTasks"]


def imported(account, file_system_id):
    """Wait until the association is there and its import is over."""
    account.wait()
    assert "EXECUTING" in {one["Lifecycle"] for one in tasks(account, file_system_id)}
    account.wait()
    assert {one["Lifecycle"] for one in tasks(account, file_system_id)} == {"SUCCEEDED"}


@pytest.fixture
def file_system(account):
    return account.available()


def test_objects_become_files_at_their_path(account, file_system):
    account.bucket(train__a="1", train__deep__b="2", other__c="3", train="4")
    made = account.associate(file_system, "/images/train", "s3://images/train", **ALL)
    assert account.association(made)["Lifecycle"] == "CREATING"
    assert files(file_system) == {}
    account.wait()
    assert account.association(made)["Lifecycle"] == "AVAILABLE"
    assert files(file_system) == {}, "the import begins now"
    account.wait()
    assert account.association(made)["Lifecycle"] == "AVAILABLE"
    assert files(file_system) == {"images/train/a": "1", "images/train/deep/b": "2"}


def test_the_root_can_be_linked_and_names_that_are_no_paths_stay_away(account, file_system):
    account.bucket(a="1")
    for key in ("x//y", "../up", "a/./b", "empty/"):
        account.s3.put_object(Bucket="images", Key=key, Body=b"")
    account.associate(file_system, "/", "s3://images", **ALL)
    imported(account, file_system)
    assert files(file_system) == {"a": "1"}
    assert sorted(path.name for path in folder(file_system).iterdir()) == ["a", "empty"]


def test_without_an_import_the_folder_is_empty(account, file_system):
    account.bucket(a="1")
    made = account.associate(file_system)
    account.wait()
    assert account.association(made)["Lifecycle"] == "AVAILABLE"
    assert list((folder(file_system) / "images").iterdir()) == []


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        ([], {"images/old": "1", "images/gone": "1"}),
        (["NEW"], {"images/old": "1", "images/gone": "1", "images/new": "2"}),
        (["CHANGED"], {"images/old": "2", "images/gone": "1"}),
        (["NEW", "CHANGED", "DELETED"], {"images/old": "2", "images/new": "2"}),
    ],
)
def test_later_changes_are_imported_as_its_policy_says(account, file_system, events, expected):
    account.bucket(old="1", gone="1")
    policy = importing(*events) if events else {}
    account.associate(file_system, **ALL, **policy)
    imported(account, file_system)
    account.s3.put_object(Bucket="images", Key="old", Body=b"2")
    account.s3.put_object(Bucket="images", Key="new", Body=b"2")
    account.s3.delete_object(Bucket="images", Key="gone")
    mount(file_system)
    assert files(file_system) == expected


def test_a_bucket_that_is_gone(account, file_system):
    account.bucket()
    made = account.associate(file_system, **ALL)
    account.wait()
    assert account.association(made)["Lifecycle"] == "AVAILABLE"
    account.s3.delete_bucket(Bucket="images")
    found = account.association(made)
    assert found["Lifecycle"] == "MISCONFIGURED"
    assert "images does not exist" in found["FailureDetails"]["Message"]
    account.bucket()
    assert account.association(made)["Lifecycle"] == "AVAILABLE"


def test_a_fault_of_s3(account, file_system, trouble):
    account.bucket(a="1")
    trouble("association_misconfigured", reason="access denied")
    made = account.associate(file_system, **ALL)
    account.wait()
    found = account.association(made)
    assert found["Lifecycle"] == "MISCONFIGURED"
    assert found["FailureDetails"]["Message"] == "access denied"
    assert files(file_system) == {}


def test_it_is_deleted_with_or_without_its_files(account, file_system, refused):
    account.bucket(a="1")
    paths = {"/kept": False, "/removed": True}
    for number, (path, deletes) in enumerate(paths.items()):
        account.bucket(f"bucket-{number}", a="1")
        made = account.associate(file_system, path, f"s3://bucket-{number}", **ALL)
        imported(account, file_system)
        deleted = account.fsx.delete_data_repository_association(
            AssociationId=made, DeleteDataInFileSystem=deletes
        )
        assert deleted["Lifecycle"] == "DELETING"
        assert deleted["DeleteDataInFileSystem"] == deletes
        account.wait()
        named = {"AssociationIds": [made]}
        describe = account.fsx.describe_data_repository_associations
        assert refused(made, describe, **named) == "DataRepositoryAssociationNotFound"
    assert files(file_system) == {"kept/a": "1"}


def test_an_import_is_a_task_and_during_it_nothing_is_deleted(account, file_system, refused):
    account.bucket(a="1")
    account.associate(file_system, **ALL)
    assert tasks(account, file_system) == []
    account.wait()
    (task,) = tasks(account, file_system)
    assert (task["Type"], task["Lifecycle"]) == ("IMPORT_METADATA_FROM_REPOSITORY", "EXECUTING")
    assert (task["Paths"], task["FileSystemId"]) == (["/images"], file_system)
    delete = account.fsx.delete_file_system
    assert refused("pending or executing", delete, FileSystemId=file_system) == "BadRequest"
    account.wait()
    described = account.fsx.describe_data_repository_tasks(TaskIds=[task["TaskId"]])
    (task,) = described["DataRepositoryTasks"]
    assert task["Lifecycle"] == "SUCCEEDED"
    delete(FileSystemId=file_system)
    account.wait()
    account.fsx.describe_file_systems()
    describe = account.fsx.describe_data_repository_tasks
    code = refused("does not exist", describe, TaskIds=[task["TaskId"]])
    assert code == "DataRepositoryTaskNotFound"


def test_an_import_of_a_bucket_that_is_gone_fails(account, file_system):
    account.bucket()
    account.associate(file_system, **ALL)
    account.wait()
    tasks(account, file_system)
    account.s3.delete_bucket(Bucket="images")
    account.wait()
    (task,) = tasks(account, file_system)
    assert task["Lifecycle"] == "FAILED"
    assert "images does not exist" in task["FailureDetails"]["Message"]


def test_it_goes_with_its_file_system(account, file_system):
    account.bucket()
    made = account.associate(file_system)
    account.wait()
    account.fsx.delete_file_system(FileSystemId=file_system)
    assert account.association(made)["Lifecycle"] == "DELETING"
    account.wait()
    assert account.fsx.describe_data_repository_associations()["Associations"] == []


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"path": "images"}, "must start with '/', and was 'images'"),
        ({"path": "/a/../b"}, "must not lead up"),
        ({"path": "/first/below"}, "overlaps /first/"),
        ({"path": "/"}, "overlaps /first/"),
        ({"repository": "s3://first"}, "linked with this file system already"),
        ({"repository": "s3://none"}, "the bucket none does not exist"),
        ({"repository": "nfs://images"}, "must be like s3://bucket/prefix/"),
        ({"S3": {"AutoExportPolicy": {"Events": ["NEW"]}}}, "exports nothing"),
        ({"S3": {"AutoImportPolicy": {"Events": ["MOVED"]}}}, "enum value set"),
    ],
)
def test_associations_that_fsx_refuses(account, file_system, refused, changes, message):
    account.bucket()
    account.bucket("first")
    account.associate(file_system, "/first/", "s3://first/")
    request = {"path": "/second", "repository": "s3://images", **changes}
    refusal = refused(message, lambda: account.associate(file_system, **request))
    assert refusal == "BadRequest"


def test_only_an_available_file_system_takes_one(account, refused):
    account.bucket()
    made = account.create()
    assert refused("is CREATING", lambda: account.associate(made)) == "BadRequest"


@pytest.mark.parametrize(
    ("deployment", "version"), [("SCRATCH_1", "2.15"), ("SCRATCH_2", "2.10"), ("SCRATCH_2", None)]
)
def test_old_file_systems_take_none(account, refused, deployment, version):
    account.bucket()
    made = account.available(deployment, FileSystemTypeVersion=version)
    assert refused("not supported", lambda: account.associate(made)) == "UnsupportedOperation"


def test_at_most_eight(account, file_system, refused):
    account.bucket()
    for number in range(8):
        account.associate(file_system, f"/{number}", f"s3://images/{number}")
    code = refused("at most 8", lambda: account.associate(file_system, "/8", "s3://images/8"))
    assert code == "ServiceLimitExceeded"


def test_one_token_makes_one(account, file_system, refused):
    account.bucket()
    made = account.associate(file_system, ClientRequestToken="token")
    assert account.associate(file_system, ClientRequestToken="token") == made
    again = {"path": "/other", "ClientRequestToken": "token"}
    code = refused("FileSystemPath differs", lambda: account.associate(file_system, **again))
    assert code == "IncompatibleParameterError"


def test_filters_and_pages(account, file_system, refused):
    account.bucket()
    other = account.available()
    made = [account.associate(file_system, f"/{each}", f"s3://images/{each}") for each in "ab"]
    account.associate(other)

    def listed(**request):
        answer = account.fsx.describe_data_repository_associations(**request)
        return [each["AssociationId"] for each in answer["Associations"]], answer.get("NextToken")

    of_first = {"Filters": [{"Name": "file-system-id", "Values": [file_system]}]}
    assert listed(**of_first) == (made, None)
    first, token = listed(**of_first, MaxResults=1)
    assert (first, listed(**of_first, NextToken=token)[0]) == (made[:1], made[1:])
    assert len(listed(Filters=[{"Name": "data-repository-type", "Values": ["S3"]}])[0]) == 3
    none = {"Filters": [{"Name": "file-system-id", "Values": [f"fs-{'0' * 17}"]}]}
    assert refused("does not exist", listed, **none) == "FileSystemNotFound"
