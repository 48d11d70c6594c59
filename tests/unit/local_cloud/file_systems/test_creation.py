"""What FSx refuses of a new file system, and what it fills in."""

import json

import pytest

from local_cloud.file_systems.requests import RefusedError, checked

THROUGHPUT = {"PerUnitStorageThroughput": 125}
NO_SUBNET = f"subnet-{'0' * 17}"


@pytest.mark.parametrize(
    ("deployment", "capacity", "lustre"),
    [("SCRATCH_2", 1200, {}), ("SCRATCH_2", 7200, {}), ("PERSISTENT_2", 2400, THROUGHPUT)],
)
@pytest.mark.parametrize("version", ["2.12", "2.15"])
def test_file_systems_that_exist(account, deployment, capacity, lustre, version):
    request = {"lustre": lustre, "FileSystemTypeVersion": version}
    found = account.describe(account.create(deployment, capacity, **request))
    assert (found["StorageCapacity"], found["FileSystemTypeVersion"]) == (capacity, version)
    assert found["LustreConfiguration"].items() >= {"DeploymentType": deployment, **lustre}.items()


@pytest.mark.parametrize(
    ("changes", "message", "code"),
    [
        ({"FileSystemType": "NFS"}, "satisfy enum value set: [WINDOWS, LUSTRE", "BadRequest"),
        ({"SubnetIds": [f"subnet_{'0' * 17}"]}, "subnetIds.member", "BadRequest"),
        ({"deployment": "SCRATCH_3"}, "lustreConfiguration.deploymentType", "BadRequest"),
        ({"SubnetIds": [NO_SUBNET]}, f"{NO_SUBNET} does not exist", "InvalidNetworkSettings"),
        ({"SecurityGroupIds": [f"sg-{'0' * 17}"]}, "does not exist", "InvalidNetworkSettings"),
        *(
            (changes, f"The local cloud does not support {missing}", "BadRequest")
            for changes, missing in (
                ({"lustre": {"ImportPath": "s3://images"}}, "ImportPath"),
                ({"lustre": {"EfaEnabled": True}}, "EfaEnabled"),
                ({"FileSystemType": "OPENZFS"}, "OPENZFS, only LUSTRE"),
                ({"NetworkType": "DUAL"}, "NetworkType"),
                ({"StorageType": "HDD"}, "HDD, only SSD"),
                ({"deployment": "SCRATCH_1"}, "SCRATCH_1"),
                ({"LustreConfiguration": {}}, "SCRATCH_1"),
            )
        ),
    ],
)
def test_requests_that_are_refused(account, refused, changes, message, code):
    request = account.request(**changes)
    assert refused(message, account.fsx.create_file_system, **request) == code
    assert account.fsx.describe_file_systems()["FileSystems"] == []


def test_security_groups_are_of_the_subnets_vpc_and_let_lustre_in(account, refused):
    other = account.ec2.create_vpc(CidrBlock="10.0.0.0/16")["Vpc"]["VpcId"]
    for vpc, problem in (
        (other, "is not in the subnet's VPC"),
        (account.vpc, "traffic on port 988"),
    ):
        named = {"GroupName": "closed", "Description": "closed", "VpcId": vpc}
        group = account.ec2.create_security_group(**named)["GroupId"]
        request = account.request(SecurityGroupIds=[group])
        code = refused(problem, account.fsx.create_file_system, **request)
        assert code == "InvalidNetworkSettings"
    lustre = {"IpProtocol": "tcp", "FromPort": 988, "ToPort": 988}
    rule = {**lustre, "UserIdGroupPairs": [{"GroupId": group}]}
    account.ec2.authorize_security_group_ingress(GroupId=group, IpPermissions=[rule])
    account.create(SecurityGroupIds=[group])


def test_one_token_makes_one_file_system(account, refused):
    first = account.create(ClientRequestToken="token")
    assert account.create(ClientRequestToken="token") == first
    request = account.request(capacity=2400, ClientRequestToken="token")
    code = refused("StorageCapacity differs", account.fsx.create_file_system, **request)
    assert code == "IncompatibleParameterError"
    assert account.create(ClientRequestToken="other") != first


def test_a_new_file_system_is_described(account):
    tags = [{"Key": "batchmark:run-id", "Value": "run"}]
    found = account.describe(account.create("PERSISTENT_2", 1200, THROUGHPUT, Tags=tags))
    file_system_id, mount_name = found["FileSystemId"], found["LustreConfiguration"]["MountName"]
    assert found["DNSName"] == f"{file_system_id}.fsx.us-east-1.amazonaws.com"
    assert len(mount_name) == 8
    assert found["Tags"] == tags
    assert (found["VpcId"], found["SubnetIds"]) == (account.vpc, [account.subnet])
    assert found["CreationTime"].timestamp() == account.now


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
