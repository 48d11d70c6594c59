"""What is recorded of each request, with real clients over HTTP."""

import json
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest
from botocore import xform_name
from moto.fsx.models import fsx_backends
from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app

from local_cloud.file_systems.models import FileSystemsBackend
from local_cloud.gaps.pricing import PriceList
from local_cloud.recorder import Recorder
from tests.unit.local_cloud.conftest import clients_of, over_http

ACCOUNT = "123456789012"
FILE_SYSTEM = "fs-0123456789abcdef0"
OF_FSX = f"file-system/{FILE_SYSTEM}"
NAMED = {"FileSystemId": FILE_SYSTEM}
LINK = {"FileSystemPath": "/images", "DataRepositoryPath": "s3://b-1/images/"}
JOB = {"jobName": "a", "jobQueue": "q", "jobDefinition": "d:1"}
METRIC = {"MetricName": "m", "Value": 1.0}

fsx_backends.backend = FileSystemsBackend


@pytest.fixture(scope="module")
def endpoint(tmp_path_factory):
    """A server whose calls are recorded, and the file they are in."""
    path = tmp_path_factory.mktemp("recorder") / "calls.jsonl"
    app = PriceList(DomainDispatcherApplication(create_backend_app), prices=None)
    recorder = Recorder(app, path)
    with over_http(recorder) as url:
        yield url, path
    recorder.close()


@pytest.fixture
def new_calls(endpoint):
    """The calls since the test began."""
    _, path = endpoint
    start = path.stat().st_size

    def read():
        return [json.loads(line) for line in path.read_bytes()[start:].splitlines()]

    return read


@pytest.fixture(scope="module")
def client(endpoint):
    with clients_of(endpoint[0], "secret") as make:
        yield make


def arn(service, rest):
    return f"arn:aws:{service}:us-east-1:{ACCOUNT}:{rest}"


ENDPOINT = arn("ec2", "vpc-endpoint/vpce-01")
OF_TABLE = [arn("glue", "database/d"), arn("glue", "table/d/t")]
OF_JOB = [arn("batch", "job-definition/d:1"), arn("batch", "job-queue/q")]


@pytest.mark.parametrize(
    ("service", "operation", "arguments", "resources"),
    [
        ("batch", "DescribeJobs", {"jobs": ["x"]}, []),
        ("batch", "SubmitJob", JOB, OF_JOB),
        ("batch", "TerminateJob", {"jobId": "j", "reason": "r"}, [arn("batch", "job/j")]),
        ("logs", "DescribeLogStreams", {"logGroupName": "/g"}, [arn("logs", "log-group:/g")]),
        (
            "logs",
            "GetLogEvents",
            {"logGroupName": "/aws/g", "logStreamName": "a/b"},
            [arn("logs", "log-group:/aws/g:log-stream:a/b")],
        ),
        ("logs", "FilterLogEvents", {"logGroupName": "/g"}, [arn("logs", "log-group:/g")]),
        ("ssm", "GetParameter", {"Name": "/airflow/x"}, [arn("ssm", "parameter/airflow/x")]),
        ("ssm", "GetParameters", {"Names": ["/aws/x"]}, ["arn:aws:ssm:us-east-1::parameter/aws/x"]),
        ("sns", "Publish", {"TopicArn": arn("sns", "t"), "Message": "hello"}, [arn("sns", "t")]),
        ("cloudwatch", "PutMetricData", {"Namespace": "n", "MetricData": [METRIC]}, []),
        ("s3", "ListObjectsV2", {"Bucket": "b-1", "Prefix": "p"}, ["arn:aws:s3:::b-1"]),
        ("s3", "HeadObject", {"Bucket": "b-1", "Key": "k"}, ["arn:aws:s3:::b-1/k"]),
        ("pricing", "GetProducts", {"ServiceCode": "AmazonEC2"}, []),
        ("ec2", "DescribeSpotPriceHistory", {"InstanceTypes": ["g5.xlarge"]}, []),
        ("ec2", "TerminateInstances", {"InstanceIds": ["i-01"]}, [arn("ec2", "instance/i-01")]),
        ("ec2", "DeleteVpc", {"VpcId": "vpc-01"}, [arn("ec2", "vpc/vpc-01")]),
        ("ec2", "DeleteVpcEndpoints", {"VpcEndpointIds": ["vpce-01"]}, [ENDPOINT]),
        ("ecr", "DescribeImages", {"repositoryName": "a/b"}, [arn("ecr", "repository/a/b")]),
        ("events", "DescribeRule", {"Name": "r"}, [arn("events", "rule/r")]),
        ("fsx", "DeleteFileSystem", NAMED, [arn("fsx", OF_FSX)]),
        ("fsx", "CreateDataRepositoryAssociation", NAMED | LINK, [arn("fsx", OF_FSX)]),
        ("glue", "GetDatabase", {"Name": "d"}, [arn("glue", "database/d")]),
        ("glue", "CreateTable", {"DatabaseName": "d", "TableInput": {"Name": "t"}}, OF_TABLE),
        ("iam", "GetRole", {"RoleName": "r"}, [f"arn:aws:iam::{ACCOUNT}:role/r"]),
        (
            "budgets",
            "DescribeBudget",
            {"AccountId": ACCOUNT, "BudgetName": "b"},
            [f"arn:aws:budgets::{ACCOUNT}:budget/b"],
        ),
        (
            "iam",
            "GetInstanceProfile",
            {"InstanceProfileName": "p"},
            [f"arn:aws:iam::{ACCOUNT}:instance-profile/p"],
        ),
    ],
)
def test_calls_of_each_protocol_are_recorded(
    client, new_calls, service, operation, arguments, resources
):
    caller = client(service)
    try:
        answer = getattr(caller, xform_name(operation))(**arguments)
    except caller.exceptions.ClientError as error:
        answer = error.response
    (call,) = new_calls()
    assert call.pop("time").endswith("+00:00")
    assert call == {
        "access_key_id": "anybody",
        "service": service,
        "operation": operation,
        "resources": resources,
        "conditions": {"cloudwatch:namespace": ["n"]} if service == "cloudwatch" else {},
        "status": answer["ResponseMetadata"]["HTTPStatusCode"],
    }


def test_a_service_that_botocore_names_otherwise_has_its_name_in_iam(client, new_calls):
    quotas = client("service-quotas")
    with pytest.raises(quotas.exceptions.ClientError):
        quotas.get_service_quota(ServiceCode="ec2", QuotaCode="none")
    client("resourcegroupstaggingapi").get_resources()
    assert [(call["service"], call["operation"]) for call in new_calls()] == [
        ("servicequotas", "GetServiceQuota"),
        ("tag", "GetResources"),
    ]


@pytest.fixture
def bucket(client):
    client("s3").create_bucket(Bucket="recorded")
    return "recorded"


def test_a_body_reaches_the_application_whole(client, bucket, new_calls):
    s3, body = client("s3"), bytes(range(256)) * 8192
    s3.put_object(Bucket=bucket, Key="raw/a +:é.bin", Body=body, ContentType="application/json")
    assert s3.get_object(Bucket=bucket, Key="raw/a +:é.bin")["Body"].read() == body
    resource = ["arn:aws:s3:::recorded/raw/a +:é.bin"]
    assert [(call["operation"], call["resources"]) for call in new_calls()] == [
        ("PutObject", resource),
        ("GetObject", resource),
    ]
    client("ssm").put_parameter(Name="recorded/é", Value="ü" * 1000, Type="String")
    assert client("ssm").get_parameter(Name="recorded/é")["Parameter"]["Value"] == "ü" * 1000


def test_what_a_policy_may_require_is_recorded_as_iam_sees_it(client, bucket, new_calls):
    batch, ssm, s3 = client("batch"), client("ssm"), client("s3")
    s3.put_object(Bucket=bucket, Key="once", Body=b"", IfNoneMatch="*")
    s3.put_object(Bucket=bucket, Key="twice", Body=b"")
    with pytest.raises(batch.exceptions.ClientError):
        batch.submit_job(**JOB, tags={"run": "1", "a:b": "2"})
    tags = [{"Key": "Project", "Value": "p"}]
    ssm.put_parameter(Name="tagged", Value="v", Type="String", Tags=tags)
    client("kms").create_key(Tags=[{"TagKey": "Project", "TagValue": "p"}])
    client("ec2").create_internet_gateway(
        TagSpecifications=[{"ResourceType": "internet-gateway", "Tags": tags}]
    )
    assert [call["conditions"] for call in new_calls()] == [
        *({"s3:if-none-match": ["*"]}, {}),
        {"aws:TagKeys": ["a:b", "run"], "aws:RequestTag/a:b": ["2"], "aws:RequestTag/run": ["1"]},
        *[{"aws:TagKeys": ["Project"], "aws:RequestTag/Project": ["p"]}] * 3,
    ]


@pytest.mark.parametrize("signature", ["s3", "s3v4"])
def test_a_presigned_address_counts_for_who_signed_it(client, bucket, new_calls, signature):
    signer = client("s3", key="signer", signature_version=signature)
    url = signer.generate_presigned_url("get_object", Params={"Bucket": bucket, "Key": "a/b"})
    assert httpx.get(url).status_code == 404
    (call,) = new_calls()
    assert (call["access_key_id"], call["operation"]) == ("signer", "GetObject")
    assert call["resources"] == ["arn:aws:s3:::recorded/a/b"]


def test_concurrent_callers_are_distinguished_and_lines_stay_whole(client, bucket, new_calls):
    def call(name):
        for _ in range(20):
            clients[name].list_objects_v2(Bucket=bucket)

    clients = {name: client("s3", key=name) for name in ("airflow", "job", "terraform")}
    with ThreadPoolExecutor() as pool:
        list(pool.map(call, clients))
    assert Counter(line["access_key_id"] for line in new_calls()) == dict.fromkeys(clients, 20)


SIGNED = "AWS4-HMAC-SHA256 Credential=who/20260101/us-east-1/{}/aws4_request, Signature=x"


@pytest.mark.parametrize(
    ("headers", "known"),
    [
        ({}, (None, None, None, None)),
        ({"Authorization": "Bearer x"}, (None, None, None, None)),
        ({"Authorization": SIGNED.format("nonesuch")}, ("who", "nonesuch", None, [])),
        (
            {"Authorization": SIGNED.format("ssm"), "X-Amz-Target": "AmazonSSM.Nonesuch"},
            ("who", "ssm", None, []),
        ),
    ],
)
def test_calls_that_cannot_be_parsed_are_served(endpoint, new_calls, headers, known):
    answer = httpx.post(endpoint[0], content=b"{", headers=headers)
    (call,) = new_calls()
    assert call["status"] == answer.status_code
    assert known == tuple(
        call[name] for name in ("access_key_id", "service", "operation", "resources")
    )
