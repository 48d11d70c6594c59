"""Data repository associations: what is refused, their life cycle, and the files they bring."""

import pytest

ALL = {"BatchImportMetaDataOnCreate": True}


def files(account, file_system_id):
    root = account.folder(file_system_id)
    found = [path for path in root.rglob("*") if path.is_file()]
    return {str(path.relative_to(root)): path.read_text() for path in found}


def imported(account, file_system_id):
    """Wait until the association is there and its import is over."""
    account.wait()
    assert "EXECUTING" in {one["Lifecycle"] for one in account.tasks(file_system_id)}
    account.wait()
    assert {one["Lifecycle"] for one in account.tasks(file_system_id)} == {"SUCCEEDED"}


@pytest.fixture
def file_system(account):
    return account.available()


def test_objects_become_files_at_their_path(account, file_system):
    account.bucket(train__a="1", train__deep__b="2", other__c="3", train="4")
    account.associate(file_system, "/images/train", "s3://images/train", **ALL)
    assert account.association(file_system)["Lifecycle"] == "CREATING"
    assert files(account, file_system) == {}
    account.wait()
    assert account.association(file_system)["Lifecycle"] == "AVAILABLE"
    assert files(account, file_system) == {}, "the import begins now"
    account.wait()
    assert account.association(file_system)["Lifecycle"] == "AVAILABLE"
    assert files(account, file_system) == {"images/train/a": "1", "images/train/deep/b": "2"}


def test_the_root_can_be_linked_and_names_that_are_no_paths_stay_away(account, file_system):
    account.bucket(a="1")
    for key in ("x//y", "../up", "a/./b", "empty/"):
        account.s3.put_object(Bucket="images", Key=key, Body=b"")
    account.associate(file_system, "/", "s3://images", **ALL)
    imported(account, file_system)
    assert files(account, file_system) == {"a": "1"}
    assert sorted(path.name for path in account.folder(file_system).iterdir()) == ["a", "empty"]


def test_without_an_import_the_folder_is_empty_and_goes_with_its_file_system(account, file_system):
    account.bucket(a="1")
    account.associate(file_system)
    account.wait()
    assert account.association(file_system)["Lifecycle"] == "AVAILABLE"
    assert list((account.folder(file_system) / "images").iterdir()) == []
    account.fsx.delete_file_system(FileSystemId=file_system)
    assert account.association(file_system)["Lifecycle"] == "DELETING"
    account.wait()
    assert account.fsx.describe_data_repository_associations()["Associations"] == []


def test_a_bucket_that_is_gone_fails_the_import(account, file_system):
    account.bucket()
    account.associate(file_system, **ALL)
    account.wait()
    assert account.association(file_system)["Lifecycle"] == "AVAILABLE"
    account.s3.delete_bucket(Bucket="images")
    account.wait()
    found, (task,) = account.association(file_system), account.tasks(file_system)
    assert (found["Lifecycle"], task["Lifecycle"]) == ("MISCONFIGURED", "FAILED")
    for one in (found, task):
        assert "images does not exist" in one["FailureDetails"]["Message"]
    account.bucket()
    assert account.association(file_system)["Lifecycle"] == "AVAILABLE"


def test_a_fault_of_s3(account, file_system, begin):
    account.bucket(a="1")
    begin("association_misconfigured", reason="access denied")
    account.associate(file_system, **ALL)
    account.wait()
    found = account.association(file_system)
    assert found["Lifecycle"] == "MISCONFIGURED"
    assert found["FailureDetails"]["Message"] == "access denied"
    assert files(account, file_system) == {}


def test_an_import_is_a_task_and_during_it_nothing_is_deleted(account, file_system, refused):
    account.bucket(a="1")
    account.associate(file_system, **ALL)
    assert account.tasks(file_system) == []
    account.wait()
    (task,) = account.tasks(file_system)
    assert (task["Type"], task["Lifecycle"]) == ("IMPORT_METADATA_FROM_REPOSITORY", "EXECUTING")
    assert (task["Paths"], task["FileSystemId"]) == (["/images"], file_system)
    delete = account.fsx.delete_file_system
    assert refused("pending or executing", delete, FileSystemId=file_system) == "BadRequest"
    account.wait()
    (task,) = account.tasks(file_system)
    assert task["Lifecycle"] == "SUCCEEDED"
    delete(FileSystemId=file_system)
    account.wait()
    account.fsx.describe_file_systems()
    assert account.fsx.describe_data_repository_tasks()["DataRepositoryTasks"] == []


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"path": "images"}, "must start with '/' and must not contain '..', got 'images'"),
        ({"path": "/a/../b"}, "must start with '/' and must not contain '..', got '/a/../b'"),
        ({"repository": "s3://none"}, "the bucket none does not exist"),
        ({"S3": {}}, "The local cloud does not support S3: "),
    ],
)
def test_associations_that_are_refused(account, file_system, refused, changes, message):
    account.bucket()
    assert refused(message, lambda: account.associate(file_system, **changes)) == "BadRequest"


def test_an_available_file_system_takes_one(account, file_system, refused):
    account.bucket()
    made = account.create()
    assert refused("is CREATING", lambda: account.associate(made)) == "BadRequest"
    account.associate(file_system)
    code = refused(
        "not support a second data repository association",
        lambda: account.associate(file_system, "/other"),
    )
    assert code == "BadRequest"


def test_one_token_makes_one(account, file_system, refused):
    account.bucket()
    made = account.associate(file_system, ClientRequestToken="token")
    assert account.associate(file_system, ClientRequestToken="token") == made
    again = {"path": "/other", "ClientRequestToken": "token"}
    code = refused("FileSystemPath differs", lambda: account.associate(file_system, **again))
    assert code == "IncompatibleParameterError"


def test_they_are_listed_by_file_system(account, file_system, refused):
    account.bucket()
    made = {each: account.associate(each) for each in (file_system, account.available())}
    describe = account.fsx.describe_data_repository_associations
    listed = describe()["Associations"]
    assert {one["FileSystemId"]: one["AssociationId"] for one in listed} == made
    assert account.association(file_system)["AssociationId"] == made[file_system]
    none = [{"Name": "file-system-id", "Values": [f"fs-{'0' * 17}"]}]
    assert refused("does not exist", describe, Filters=none) == "FileSystemNotFound"
    of_s3 = [{"Name": "data-repository-type", "Values": ["S3"]}]
    assert (
        refused("not support the filter data-repository-type", describe, Filters=of_s3)
        == "BadRequest"
    )
