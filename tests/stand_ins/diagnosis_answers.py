"""AWS for a diagnosis: real clients with given answers, checked against AWS's model."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import boto3
from botocore.awsrequest import AWSResponse
from botocore.exceptions import ClientError
from botocore.validate import validate_parameters

from batchmark.checks.diagnosis.records import REMEDIES

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
REGION = "us-east-1"
BATCH_ARN = f"arn:aws:batch:{REGION}:123456789012"
QUEUE, ENVIRONMENT = "batchmark-g5-xlarge", "batchmark-g5-xlarge-on-demand-1"
CLUSTER = f"arn:aws:ecs:{REGION}:123456789012:cluster/AWSBatch-{ENVIRONMENT}"
IMAGE = f"123456789012.dkr.ecr.{REGION}.amazonaws.com/batchmark:0.1.0"
DEFINITION = f"{BATCH_ARN}:job-definition/batchmark-g5-xlarge:3"
EVENTS_GROUP = "/aws/events/batch/batchmark"
CREATED_AT = int((NOW - timedelta(hours=1)).timestamp() * 1000)


def container(vcpus=4, memory=14336, gpus=1, image=IMAGE):
    needs = {"VCPU": vcpus, "MEMORY": memory, "GPU": gpus}
    return {
        "image": image,
        "resourceRequirements": [
            {"type": kind, "value": str(value)} for kind, value in needs.items() if value
        ],
    }


def job(job_id="waiting", *, created_at=CREATED_AT, **fields):
    """Return a JobDetail; the model requires startedAt, which AWS omits before the start."""
    return {
        "jobId": job_id,
        "jobName": "batchmark-g5-xlarge-blog-1",
        "jobQueue": f"{BATCH_ARN}:job-queue/{QUEUE}",
        "jobDefinition": DEFINITION,
        "status": "RUNNABLE",
        "createdAt": created_at,
        "startedAt": 0,
        "container": container(),
    } | fields


def summary(job_id="waiting", *, created_at=CREATED_AT, **fields):
    return {"jobId": job_id, "jobName": job_id, "createdAt": created_at} | fields


def queue(**fields):
    return {
        "jobQueueName": QUEUE,
        "jobQueueArn": f"{BATCH_ARN}:job-queue/{QUEUE}",
        "state": "ENABLED",
        "status": "VALID",
        "priority": 1,
        "computeEnvironmentOrder": [
            {"order": 1, "computeEnvironment": f"{BATCH_ARN}:compute-environment/{ENVIRONMENT}"}
        ],
    } | fields


def environment(name=ENVIRONMENT, *, resources=None, **fields):
    return {
        "computeEnvironmentName": name,
        "computeEnvironmentArn": f"{BATCH_ARN}:compute-environment/{name}",
        "ecsClusterArn": CLUSTER,
        "type": "MANAGED",
        "state": "ENABLED",
        "status": "VALID",
        "statusReason": "ComputeEnvironment Healthy",
        "computeResources": {
            "type": "EC2",
            "minvCpus": 0,
            "maxvCpus": 16,
            "desiredvCpus": 4,
            "instanceTypes": ["g5.xlarge"],
            "subnets": ["subnet-1"],
        }
        | (resources or {}),
    } | fields


def one_environment(**fields):
    """Return the answer for a queue with this one environment."""
    return {"DescribeComputeEnvironments": {"computeEnvironments": [environment(**fields)]}}


def two_environments(*, first=None, second=None):
    """Return the answers for a queue that tries Spot first."""
    spot = {"type": "SPOT"} | (first or {}).pop("resources", {})
    environments = [
        environment("spot", resources=spot, **(first or {})),
        environment("on-demand", **(second or {})),
    ]
    order = [
        {"order": number, "computeEnvironment": described["computeEnvironmentArn"]}
        for number, described in enumerate(environments)
    ]
    return {
        "DescribeJobQueues": {"jobQueues": [queue(computeEnvironmentOrder=order)]},
        # AWS answers in any order.
        "DescribeComputeEnvironments": {"computeEnvironments": environments[::-1]},
    }


def instance_type(name="g5.xlarge", vcpus=4, memory=16384, gpus=1):
    facts: dict[str, Any] = {
        "InstanceType": name,
        "VCpuInfo": {"DefaultVCpus": vcpus},
        "MemoryInfo": {"SizeInMiB": memory},
    }
    if gpus:
        facts["GpuInfo"] = {"Gpus": [{"Name": "A10G", "Manufacturer": "NVIDIA", "Count": gpus}]}
    return facts


def quota(value, **fields):
    return {
        "QuotaName": "Running On-Demand G and VT instances",
        "QuotaCode": "L-DB2E81BA",
        "Value": value,
        "UsageMetric": {
            "MetricNamespace": "AWS/Usage",
            "MetricName": "ResourceCount",
            "MetricDimensions": {"Service": "EC2", "Type": "Resource", "Class": "G/OnDemand"},
        },
    } | fields


def route_table(*routes, subnet=None):
    association = {"SubnetId": subnet} if subnet else {"Main": True}
    local = {"DestinationCidrBlock": "10.0.0.0/16", "GatewayId": "local", "State": "active"}
    return {"RouteTableId": "rtb-1", "Associations": [association], "Routes": [local, *routes]}


def group_of_batch(*instance_ids, name=f"AWSBatch-{ENVIRONMENT}-asg-0f", tags=()):
    return {
        "AutoScalingGroupName": name,
        "MinSize": 0,
        "MaxSize": 1,
        "DesiredCapacity": 1,
        "DefaultCooldown": 1,
        "AvailabilityZones": ["us-east-1a"],
        "HealthCheckType": "EC2",
        "CreatedTime": NOW,
        "Tags": [{"Key": "AWSBatchServiceTag", "Value": "batch"}, *tags],
        "Instances": [
            {
                "InstanceId": instance_id,
                "AvailabilityZone": "us-east-1a",
                "LifecycleState": "InService",
                "HealthStatus": "Healthy",
                "ProtectedFromScaleIn": False,
            }
            for instance_id in instance_ids
        ],
    }


INTERNET = {"DestinationCidrBlock": "0.0.0.0/0", "GatewayId": "igw-1", "State": "active"}

HEALTHY: dict[str, Any] = {
    "DescribeJobQueues": {"jobQueues": [queue()]},
    **one_environment(),
    "ListJobs": {"jobSummaryList": [summary()]},
    "DescribeJobs": {"jobs": [job()]},
    "DescribeJobDefinitions": {"jobDefinitions": []},
    "FilterLogEvents": {"events": []},
    "DescribeInstanceTypes": {"InstanceTypes": [instance_type()]},
    "GetServiceQuota": {"Quota": quota(64)},
    "GetMetricStatistics": {"Datapoints": []},
    "DescribeAutoScalingGroups": {"AutoScalingGroups": [group_of_batch("i-1")]},
    "DescribeScalingActivities": {"Activities": []},
    "ListContainerInstances": {"containerInstanceArns": []},
    "DescribeContainerInstances": {"containerInstances": []},
    "DescribeInstances": {"Reservations": []},
    "DescribeSubnets": {
        "Subnets": [{"SubnetId": "subnet-1", "VpcId": "vpc-1", "MapPublicIpOnLaunch": True}]
    },
    "DescribeRouteTables": {"RouteTables": [route_table(INTERNET)]},
    "DescribeVpcEndpoints": {"VpcEndpoints": []},
    "DescribeImages": {"imageDetails": [{"imageTags": ["0.1.0"]}]},
}

Answer = dict[str, Any] | str


class Aws:
    """Clients for `diagnose`. An answer is a document or an error's code."""

    def __init__(self):
        self._session = boto3.Session("test", "test", region_name=REGION)
        self._clients: dict[str, Any] = {}
        self.answers: dict[str, Answer] = {}
        self.calls: list[tuple[str, dict[str, Any]]] = []

    def reset(self):
        """Make everything healthy again; the clients stay, as they take long to make."""
        self.answers = dict(HEALTHY)
        self.calls = []

    def client(self, service):
        if service not in self._clients:
            made = self._session.client(service)
            made.meta.events.register("provide-client-params.*.*", self._note)
            made.meta.events.register("before-call.*.*", self._answer)
            self._clients[service] = made
        return self._clients[service]

    def asked(self, operation):
        return [parameters for name, parameters in self.calls if name == operation]

    def close(self):
        for client in self._clients.values():
            client.close()

    def _note(self, params, model, **_):
        self.calls.append((model.name, params))

    def _answer(self, model, **_):
        answer = self.answers[model.name]
        if isinstance(answer, str):
            raise ClientError({"Error": {"Code": answer, "Message": "no"}}, model.name)
        validate_parameters(answer, model.output_shape)
        return AWSResponse(None, 200, {}, None), answer


def only(diagnosis, cause, *evidence, certain=None):
    """The one finding: of this cause, with these words, and as certain, if that is given."""
    (finding,) = diagnosis.findings
    assert finding.cause == cause
    assert finding.remedy == REMEDIES[finding.cause]
    for words in evidence:
        assert words in finding.evidence
    assert certain is None or finding.certain is certain
    return finding
