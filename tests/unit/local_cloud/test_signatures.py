"""Which requests count as signed, with real clients over HTTP."""

import io
from contextlib import closing
from datetime import timedelta
from functools import partial

import boto3
import httpx
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError
from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app

from local_cloud import signatures
from local_cloud.signatures import SignedRequests
from tests.unit.local_cloud.conftest import clients_of, over_http

SECRET = "a-secret_of/this+cloud"
BUCKET = "signed-bucket"
ODD_KEY = "raw/a +:é&=%2F;~.bin"
HINT = "use the credentials in FILE"
ask = partial(httpx.request, verify=False)  # plain HTTP; a call would read all certificates first


@pytest.fixture(scope="module")
def endpoint():
    app = SignedRequests(DomainDispatcherApplication(create_backend_app), SECRET, HINT)
    with over_http(app) as url:
        yield url


@pytest.fixture(scope="module")
def client(endpoint):
    with clients_of(endpoint, SECRET) as make:
        yield make


@pytest.fixture(scope="module")
def s3(client):
    made = client("s3")
    made.create_bucket(Bucket=BUCKET)
    made.put_object(Bucket=BUCKET, Key=ODD_KEY, Body=b"content")
    return made


def test_calls_of_s3_are_served(s3):
    metadata = {"an_underscore": "a  b", "dash-ed": "c"}
    s3.put_object(Bucket=BUCKET, Key="a", Body=io.BytesIO(b"x" * 100_000), Metadata=metadata)
    s3.copy_object(Bucket=BUCKET, Key="é b", CopySource={"Bucket": BUCKET, "Key": ODD_KEY})
    s3.put_object_tagging(
        Bucket=BUCKET, Key="a", Tagging={"TagSet": [{"Key": "k", "Value": "v w"}]}
    )
    assert s3.get_object(Bucket=BUCKET, Key=ODD_KEY)["Body"].read() == b"content"
    assert s3.head_object(Bucket=BUCKET, Key="a")["Metadata"] == metadata
    found = s3.list_objects_v2(Bucket=BUCKET, Prefix="", StartAfter="A ü", MaxKeys=9)
    assert [each["Key"] for each in found["Contents"]] == ["a", ODD_KEY, "é b"]
    upload = s3.create_multipart_upload(Bucket=BUCKET, Key="parts")["UploadId"]
    part = {"Bucket": BUCKET, "Key": "parts", "UploadId": upload}
    tag = s3.upload_part(PartNumber=1, Body=b"part", **part)["ETag"]
    parts = {"Parts": [{"PartNumber": 1, "ETag": tag}]}
    s3.complete_multipart_upload(MultipartUpload=parts, **part)
    deleted = s3.delete_objects(Bucket=BUCKET, Delete={"Objects": [{"Key": "a"}]})
    assert [each["Key"] for each in deleted["Deleted"]] == ["a"]


def test_a_bucket_may_be_in_the_host(endpoint, s3):
    port = endpoint.rpartition(":")[2]
    host = f"{BUCKET}.localhost:{port}"

    def send_to_loopback(request, **_):
        assert request.url.startswith(f"http://{host}/")
        request.headers["Host"] = host
        request.url = request.url.replace(host, f"127.0.0.1:{port}")

    config = Config(s3={"addressing_style": "virtual"}, retries={"total_max_attempts": 1})
    session = boto3.Session("anybody", SECRET, region_name="us-east-1")
    url = f"http://localhost:{port}"
    with closing(session.client("s3", endpoint_url=url, config=config)) as by_host:
        by_host.meta.events.register("before-send.s3", send_to_loopback)
        answer = by_host.get_object(Bucket=BUCKET, Key=ODD_KEY)
        assert answer["Body"].read() == b"content"


def test_calls_of_each_protocol_are_served(client):
    client("ssm").put_parameter(Name="/é", Value="ü" * 1000, Type="String", Overwrite=True)
    topic = client("sns").create_topic(Name="t")["TopicArn"]
    client("sns").publish(TopicArn=topic, Message="a+b &é= c")
    client("ec2").describe_vpcs(Filters=[{"Name": "isDefault", "Values": ["true"]}])
    client("cloudwatch").put_metric_data(Namespace="n", MetricData=[{"MetricName": "m"}])
    client("iam").list_roles(PathPrefix="/a/")
    client("logs").describe_log_groups(logGroupNamePrefix="/aws")
    batch = client("batch")
    policy = batch.create_scheduling_policy(name="policy")["arn"]
    batch.tag_resource(resourceArn=policy, tags={"a:b": "c/d"})  # the ARN is in the path
    assert batch.list_tags_for_resource(resourceArn=policy)["tags"] == {"a:b": "c/d"}


@pytest.mark.parametrize(
    ("service", "call", "secret"),
    [
        ("ssm", "describe_parameters", "anybody"),
        ("sns", "list_topics", SECRET + "x"),
        ("ec2", "describe_vpcs", SECRET.upper()),
        ("iam", "list_roles", "anybody"),
        ("batch", "describe_job_queues", SECRET + "x"),
        ("s3", "list_buckets", SECRET.upper()),
        ("service-quotas", "list_services", "anybody"),
    ],
)
def test_another_secret_is_refused_in_the_services_own_words(client, service, call, secret):
    with pytest.raises(ClientError) as refused:
        getattr(client(service, secret), call)()
    answer = refused.value.response
    assert answer["ResponseMetadata"]["HTTPStatusCode"] == 403
    assert answer["Error"]["Code"] == "SignatureDoesNotMatch"
    assert answer["Error"]["Message"].endswith(HINT)


def test_keys_that_were_issued_here_sign_with_their_own_secret(client):
    role = "arn:aws:iam::222222222222:role/somebody-else"
    issued = client("sts").assume_role(RoleArn=role, RoleSessionName="session")["Credentials"]
    names = ("SecretAccessKey", "AccessKeyId", "SessionToken")
    other = client("sts", *(issued[name] for name in names))
    assert other.get_caller_identity()["Account"] == "222222222222"
    forged = client("sts", SECRET, issued["AccessKeyId"], issued["SessionToken"])
    with pytest.raises(ClientError, match="SignatureDoesNotMatch"):
        forged.get_caller_identity()


@pytest.mark.parametrize("version", ["s3", "s3v4"])
def test_a_presigned_address_opens_what_it_names_and_nothing_else_until_it_expires(
    client, s3, version, monkeypatch
):
    def presigned(secret):
        signer = client("s3", secret, signature_version=version)
        params = {"Bucket": BUCKET, "Key": ODD_KEY, "ResponseContentType": "text/html"}
        return signer.generate_presigned_url("get_object", Params=params, ExpiresIn=100)

    url = presigned(SECRET)
    signed_at = signatures.now()
    assert ask("GET", url).status_code == 200
    for other in (
        presigned("guessed"),
        url.replace(BUCKET, "other-bucket"),
        url.replace("text%2Fhtml", "text%2Fplain"),
        url.partition("?")[0],
    ):
        assert ask("GET", other).status_code == 403, other
    for method in ("PUT", "DELETE", "POST"):
        assert ask(method, url).status_code == 403
    for seconds, status in ((90, 200), (102, 403)):
        time = signed_at + timedelta(seconds=seconds)
        monkeypatch.setattr(signatures, "now", lambda time=time: time)
        answer = ask("GET", url)
        assert answer.status_code == status
    assert "<Code>AccessDenied</Code><Message>Request has expired</Message>" in answer.text
    later = url.replace("X-Amz-Expires=100", "X-Amz-Expires=900").replace("&Expires=", "&Expires=9")
    assert "<Code>SignatureDoesNotMatch</Code>" in ask("GET", later).text


def test_a_presigned_call_of_another_service_is_served(client):
    url = client("sts").generate_presigned_url("get_caller_identity", HttpMethod="GET")
    assert ask("GET", url).status_code == 200
    assert ask("GET", url.replace("GetCallerIdentity", "GetSessionToken")).status_code == 403
    sign = client("sts").generate_presigned_url
    answer = ask("GET", sign("get_caller_identity", HttpMethod="GET", ExpiresIn=-2))
    assert answer.status_code == 403
    assert "<Code>SignatureDoesNotMatch</Code><Message>Signature expired: " in answer.text


@pytest.mark.parametrize(
    "query",
    [
        {},
        {"Expires": "soon"},
        {"Expires": "9" * 30},
        {"X-Amz-Signature": "0", "X-Amz-Date": "20261123T000000Z"},
        {"X-Amz-Signature": "0", "X-Amz-Date": "today", "X-Amz-Expires": "1"},
        {"X-Amz-Signature": "0", "X-Amz-Date": "20261123T000000Z", "X-Amz-Expires": "9" * 30},
    ],
)
def test_an_address_without_an_end_is_not_signed(query):
    with pytest.raises((KeyError, ValueError)):
        signatures.end_of(query)


SIGNED = "AWS4-HMAC-SHA256 Credential={}, SignedHeaders={}, Signature={}"
CREDENTIAL = "anybody/20261123/us-east-1/ssm/aws4_request"


@pytest.mark.parametrize(
    ("path", "headers"),
    [
        ("/", {}),
        ("/?Action=CreateStack", {}),
        ("/cloudformation_us-east-1/?Action=CreateStack&TemplateBody=x", {}),
        ("/v1/describejobqueues", {}),
        ("/moto-api/reset", {}),
        ("/bucket/key?AWSAccessKeyId=a&Signature=b", {}),
        ("/bucket/key?AWSAccessKeyId=a&Signature=%C3%A9&Expires=1", {}),
        ("/bucket/key?X-Amz-Signature=a", {}),
        ("/", {"Authorization": "Bearer x"}),
        ("/", {"Authorization": f"AWS anybody:{SECRET}"}),
        ("/", {"Authorization": SIGNED.format("anybody", "host", "a")}),
        ("/", {"Authorization": SIGNED.format(CREDENTIAL, "host", "a")}),
        ("/", {"Authorization": SIGNED.format(CREDENTIAL, "host;missing", "a")}),
        ("/", {"Authorization": SIGNED.format(CREDENTIAL, "host", "é".encode().decode("latin1"))}),
        ("/", {"Authorization": SIGNED.format(CREDENTIAL, "", "")}),
    ],
)
def test_what_is_not_signed_is_refused(endpoint, path, headers):
    if headers:
        headers = {**headers, "X-Amz-Date": "20261123T000000Z"}
    encoded = {name: value.encode("latin1") for name, value in headers.items()}
    for method in ("GET", "POST"):
        answer = ask(method, endpoint + path, headers=encoded)
        assert answer.status_code == 403
        assert HINT in answer.text


def test_a_body_must_be_the_one_that_was_signed(client):
    ssm = client("ssm", key="somebody")  # which no other test has

    def change(request, **_):
        request.body = request.body.replace(b"harmless", b"HARMLESS")

    ssm.meta.events.register("before-send.ssm", change)
    with pytest.raises(ClientError, match="SignatureDoesNotMatch"):
        ssm.put_parameter(Name="x", Value="harmless", Type="String")
