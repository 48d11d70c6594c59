"""What FSx refuses of a new file system, and what it fills in."""

import pytest

PERSISTENT_1, PERSISTENT_2 = {"PerUnitStorageThroughput": 50}, {"PerUnitStorageThroughput": 125}
HDD = {"PerUnitStorageThroughput": 12, "DriveCacheType": "NONE"}


@pytest.mark.parametrize(
    ("deployment", "capacity", "lustre"),
    [
        ("SCRATCH_1", 3600, {}),
        ("SCRATCH_2", 1200, {}),
        ("SCRATCH_2", 7200, {}),
        ("PERSISTENT_1", 2400, PERSISTENT_1),
        ("PERSISTENT_1", 4800, {"PerUnitStorageThroughput": 200}),
        ("PERSISTENT_2", 1200, PERSISTENT_2),
        ("PERSISTENT_2", 4800, {"PerUnitStorageThroughput": 1000}),
    ],
)
def test_sizes_that_exist(account, deployment, capacity, lustre):
    found = account.describe(account.create(deployment, capacity, lustre))
    assert found["StorageCapacity"] == capacity
    assert found["LustreConfiguration"]["DeploymentType"] == deployment


@pytest.mark.parametrize(
    ("deployment", "capacity", "lustre"),
    [
        ("SCRATCH_1", 4800, {}),
        ("SCRATCH_2", 3600, {}),
        ("SCRATCH_2", 0, {}),
        ("PERSISTENT_1", 1800, PERSISTENT_1),
        ("PERSISTENT_2", 3600, PERSISTENT_2),
    ],
)
def test_sizes_that_do_not_exist(account, refused, deployment, capacity, lustre):
    request = account.request(deployment, capacity, lustre)
    message = f"Invalid Lustre storage capacity: {capacity}"
    assert refused(message, account.fsx.create_file_system, **request) == "BadRequest"


def test_disks_come_in_sizes_of_their_own(account, refused):
    disks = {"lustre": HDD, "StorageType": "HDD"}
    account.create("PERSISTENT_1", 6000, **disks)
    request = account.request("PERSISTENT_1", 7200, **disks)
    refused("multiple of 6000", account.fsx.create_file_system, **request)
    for wrong in (
        account.request("SCRATCH_2", 6000, **disks),
        account.request("PERSISTENT_1", 6000, PERSISTENT_1, StorageType="HDD"),
    ):
        assert refused("HDD", account.fsx.create_file_system, **wrong) == "BadRequest"


@pytest.mark.parametrize(
    ("deployment", "throughput", "code"),
    [
        ("SCRATCH_2", 125, "BadRequest"),
        ("PERSISTENT_1", None, "BadRequest"),
        ("PERSISTENT_2", None, "BadRequest"),
        ("PERSISTENT_1", 125, "InvalidPerUnitStorageThroughput"),
        ("PERSISTENT_2", 50, "InvalidPerUnitStorageThroughput"),
    ],
)
def test_throughput_is_for_persistent_ones(account, refused, deployment, throughput, code):
    asked = {} if throughput is None else {"PerUnitStorageThroughput": throughput}
    request = account.request(deployment, 1200, asked)
    assert refused("PerUnitStorageThroughput", account.fsx.create_file_system, **request) == code


@pytest.mark.parametrize(
    ("deployment", "version", "expected"),
    [
        ("SCRATCH_2", None, "2.10"),
        ("SCRATCH_2", "2.12", "2.12"),
        ("PERSISTENT_2", None, "2.12"),
        ("PERSISTENT_2", "2.15", "2.15"),
    ],
)
def test_versions(account, deployment, version, expected):
    lustre = PERSISTENT_2 if deployment == "PERSISTENT_2" else {}
    made = account.create(deployment, 1200, lustre, FileSystemTypeVersion=version)
    assert account.describe(made)["FileSystemTypeVersion"] == expected


@pytest.mark.parametrize(
    ("deployment", "changes", "message"),
    [
        ("PERSISTENT_2", {"FileSystemTypeVersion": "2.10"}, "2.10 is not supported"),
        ("SCRATCH_2", {"FileSystemTypeVersion": "2.14"}, "one of 2.10, 2.12, 2.15, not 2.14"),
        ("SCRATCH_2", {"StorageCapacity": None}, "StorageCapacity must be provided"),
        ("SCRATCH_2", {"KmsKeyId": "alias/key"}, "KmsKeyId is not supported"),
        ("SCRATCH_2", {"lustre": {"AutomaticBackupRetentionDays": 1}}, "not supported for"),
        ("SCRATCH_2", {"lustre": {"ImportPath": "s3://images"}}, "have no ImportPath"),
        ("SCRATCH_2", {"lustre": {"EfaEnabled": True}}, "have no EfaEnabled"),
        ("SCRATCH_2", {"lustre": {"MetadataConfiguration": {"Mode": "AUTOMATIC"}}}, "PERSISTENT_2"),
        ("SCRATCH_2", {"FileSystemType": "OPENZFS"}, "no file systems of type OPENZFS"),
        ("SCRATCH_2", {"FileSystemType": "NFS"}, "satisfy enum value set: [WINDOWS, LUSTRE"),
        ("SCRATCH_2", {"NetworkType": "DUAL"}, "NetworkType cannot be applied"),
        ("SCRATCH_2", {"SubnetIds": []}, "Exactly one subnet ID"),
        ("SCRATCH_2", {"SubnetIds": [f"subnet_{'0' * 17}"]}, "subnetIds.member"),
        ("SCRATCH_3", {}, "lustreConfiguration.deploymentType"),
    ],
)
def test_requests_that_fsx_refuses(account, refused, deployment, changes, message):
    lustre = PERSISTENT_2 if deployment == "PERSISTENT_2" else {}
    request = account.request(deployment, **{"lustre": lustre, **changes})
    assert refused(message, account.fsx.create_file_system, **request) == "BadRequest"
    assert account.fsx.describe_file_systems()["FileSystems"] == []


def test_a_network_that_is_not_there(account, refused):
    missing = f"subnet-{'0' * 17}"
    request = account.request(SubnetIds=[missing])
    code = refused(f"{missing} does not exist", account.fsx.create_file_system, **request)
    assert code == "InvalidNetworkSettings"
    request = account.request(SecurityGroupIds=[f"sg-{'0' * 17}"])
    code = refused("does not exist", account.fsx.create_file_system, **request)
    assert code == "InvalidNetworkSettings"


def test_security_groups_let_lustre_in(account, refused):
    named = {"GroupName": "closed", "Description": "closed", "VpcId": account.vpc}
    group = account.ec2.create_security_group(**named)["GroupId"]
    request = account.request(SecurityGroupIds=[group])
    code = refused("traffic on port 988", account.fsx.create_file_system, **request)
    assert code == "InvalidNetworkSettings"
    lustre = {"IpProtocol": "tcp", "FromPort": 988, "ToPort": 988}
    rule = {**lustre, "UserIdGroupPairs": [{"GroupId": group}]}
    account.ec2.authorize_security_group_ingress(GroupId=group, IpPermissions=[rule])
    account.create(SecurityGroupIds=[group])


def test_a_security_group_of_another_vpc_is_refused(account, refused):
    vpc = account.ec2.create_vpc(CidrBlock="10.0.0.0/16")["Vpc"]["VpcId"]
    named = {"GroupName": "lustre", "Description": "lustre", "VpcId": vpc}
    group = account.ec2.create_security_group(**named)["GroupId"]
    request = account.request(SecurityGroupIds=[group])
    refused("is not in the subnet's VPC", account.fsx.create_file_system, **request)


def test_one_token_makes_one_file_system(account, refused):
    first = account.create(ClientRequestToken="token")
    assert account.create(ClientRequestToken="token") == first
    request = account.request(capacity=2400, ClientRequestToken="token")
    code = refused("StorageCapacity differs", account.fsx.create_file_system, **request)
    assert code == "IncompatibleParameterError"
    assert account.create(ClientRequestToken="other") != first


def test_a_new_file_system_is_described(account):
    tags = [{"Key": "batchmark:run-id", "Value": "run"}]
    found = account.describe(account.create("PERSISTENT_2", 1200, PERSISTENT_2, Tags=tags))
    file_system_id, mount_name = found["FileSystemId"], found["LustreConfiguration"]["MountName"]
    assert found["DNSName"] == f"{file_system_id}.fsx.us-east-1.amazonaws.com"
    assert len(mount_name) == 8
    assert found["Tags"] == tags
    assert (found["VpcId"], found["SubnetIds"]) == (account.vpc, [account.subnet])
    assert found["CreationTime"].timestamp() == account.now
    assert (
        account.describe(account.create("SCRATCH_1"))["LustreConfiguration"]["MountName"] == "fsx"
    )
