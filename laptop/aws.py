"""AWS clients for a local cloud on this machine."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import boto3

from batchmark.core.clusters.multi_node import VARIABLE as MULTI_NODE_VARIABLE
from batchmark.core.clusters.multi_node import MultiNode, parse_multi_node
from batchmark.core.config import VARIABLE, Config, parse_config

REGION = "us-east-1"
VARIABLES = "/airflow/variables"
MANIFEST = "application/vnd.docker.distribution.manifest.v2+json"


class AwsClients:
    """boto3 clients for a local cloud, created without changing this process's environment.

    Args:
        env: environment variables that point AWS clients to the local cloud.
    """

    def __init__(self, env: Mapping[str, str]) -> None:
        self._endpoint = env["AWS_ENDPOINT_URL"]
        self.session = boto3.Session(
            aws_access_key_id=env["AWS_ACCESS_KEY_ID"],
            aws_secret_access_key=env["AWS_SECRET_ACCESS_KEY"],
            region_name=REGION,
        )
        self._clients: dict[str, Any] = {}

    def client(self, service: str) -> Any:
        if service not in self._clients:
            self._clients[service] = self.session.client(service, endpoint_url=self._endpoint)
        return self._clients[service]

    def close(self) -> None:
        for client in self._clients.values():
            client.close()

    def config(self) -> Config:
        return parse_config(self._variable(VARIABLE))

    def multi_node(self) -> MultiNode:
        return parse_multi_node(self._variable(MULTI_NODE_VARIABLE))

    def _variable(self, name: str) -> str:
        """Return the value of an Airflow variable that Terraform published."""
        answer = self.client("ssm").get_parameter(Name=f"{VARIABLES}/{name}")
        return str(answer["Parameter"]["Value"])

    def new_log_lines(self, group: str) -> Iterator[list[str]]:
        """On each iteration, yield the lines that jobs have written since the previous one."""
        logs = self.client("logs")
        tokens: dict[str, str] = {}
        while True:
            lines = []
            streams = logs.describe_log_streams(logGroupName=group)["logStreams"]
            for name in (stream["logStreamName"] for stream in streams):
                token = {"nextToken": tokens[name]} if name in tokens else {}
                page = logs.get_log_events(
                    logGroupName=group, logStreamName=name, startFromHead=True, **token
                )
                tokens[name] = page["nextForwardToken"]
                target = name.partition("/")[0]
                lines += [f"{target}: {event['message']}" for event in page["events"]]
            yield lines


def publish_stand_in(ecr: Any, image: str) -> None:
    """Push an image without layers under this name, instead of the real one from `make image`.

    A stand-in is enough, as the job image is never pulled from a local cloud's ECR. An existing
    image with the same tag is kept, because tags are immutable.
    """
    repository, _, tag = image.rpartition("/")[2].partition(":")
    listed = ecr.list_images(repositoryName=repository, filter={"tagStatus": "TAGGED"})
    if tag in {found["imageTag"] for found in listed["imageIds"]}:
        return
    manifest = {"schemaVersion": 2, "mediaType": MANIFEST, "config": {}, "layers": []}
    ecr.put_image(repositoryName=repository, imageTag=tag, imageManifest=json.dumps(manifest))
