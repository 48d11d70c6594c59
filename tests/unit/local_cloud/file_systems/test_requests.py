"""What is refused of any request, as clients that check nothing send it."""

import json

import pytest

from local_cloud.file_systems.requests import RefusedError, checked

SUBNET = f"subnet-{'0' * 17}"


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"FileSystem": "a"}, 'Unknown parameter in input: "FileSystem"'),
        ({"StorageCapacity": "1200"}, "Invalid type for parameter StorageCapacity"),
        ({"StorageCapacity": -1}, "Invalid value for parameter StorageCapacity"),
        ({"Tags": [{"Key": "a"}]}, 'Missing required parameter in Tags[0]: "Value"'),
        ({"Tags": [{"Key": "a" * 129, "Value": ""}]}, "length less than or equal to 128"),
        ({"Tags": [{"Key": "a", "Value": "b~"}]}, "regular expression pattern: ^([\\p{L}"),
        ({"Tags": [{"Key": "a", "Value": "b\t"}]}, "regular expression pattern: ^([\\p{L}"),
        ({"ClientRequestToken": "a b"}, "Member must satisfy regular expression pattern"),
    ],
)
def test_problems(changes, problem):
    request = {"FileSystemType": "LUSTRE", "SubnetIds": [SUBNET], **changes}
    with pytest.raises(RefusedError) as refused:
        checked("CreateFileSystem", json.dumps(request))
    assert refused.value.error_type == "BadRequest"
    assert problem in json.loads(refused.value.get_body())["message"]


def test_a_good_request_is_as_sent():
    tags = [{"Key": "run", "Value": "gr\u00fcn_1+2:00 /=@.-"}]
    request = {"FileSystemType": "LUSTRE", "SubnetIds": [SUBNET], "Tags": tags}
    assert checked("CreateFileSystem", json.dumps(request)) == request
    assert checked("DescribeFileSystems", "") == {}
