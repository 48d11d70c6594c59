"""What is refused of any request, as clients that check nothing send it."""

import json

import pytest

from local_cloud.file_systems.requests import RefusedError, checked

SUBNET = f"subnet-{'0' * 17}"


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"FileSystemType": None}, "Value null at 'fileSystemType' failed to satisfy constraint"),
        ({"FileSystem": "a"}, "Unknown parameter 'fileSystem', must be one of: ClientRequestToken"),
        ({"StorageCapacity": "1200"}, "Value '1200' at 'storageCapacity' must be a integer"),
        ({"StorageCapacity": True}, "Value True at 'storageCapacity' must be a integer"),
        ({"StorageCapacity": -1}, "Member must have value greater than or equal to 0"),
        ({"SubnetIds": [SUBNET] * 51}, "Member must have length less than or equal to 50"),
        ({"SubnetIds": SUBNET}, "at 'subnetIds' must be a list"),
        ({"Tags": [{"Key": "a"}]}, "Value null at 'tags.member.value'"),
        ({"Tags": [{"Key": "a", "Value": "b~"}]}, "regular expression pattern: ^([\\p{L}"),
        ({"Tags": [{"Key": "a", "Value": "b\t"}]}, "regular expression pattern: ^([\\p{L}"),
        ({"ClientRequestToken": "a b"}, "Member must satisfy regular expression pattern"),
        ({"LustreConfiguration": {"Type": "a"}}, "Unknown parameter 'lustreConfiguration.type'"),
    ],
)
def test_problems(changes, problem):
    request = {"FileSystemType": "LUSTRE", "SubnetIds": [SUBNET], **changes}
    with pytest.raises(RefusedError) as refused:
        checked("CreateFileSystem", json.dumps(request))
    assert refused.value.error_type == "BadRequest"
    assert problem in json.loads(refused.value.get_body())["message"]


def test_a_good_request_is_as_sent():
    request = {"FileSystemType": "LUSTRE", "SubnetIds": [SUBNET], "Tags": []} | {"Tags": None}
    assert checked("CreateFileSystem", json.dumps(request)) == request
    request["Tags"] = [{"Key": "run", "Value": "gr\u00fcn_1+2:00 /=@.-"}]
    assert checked("CreateFileSystem", json.dumps(request)) == request
    assert checked("DescribeFileSystems", "") == {}
