"""The layer of the matrix: nodes, and the file system that a run stands up for them.

Its stack is not applied here: what that would publish is made like the base target's.
"""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from batchmark.aws import file_systems
from batchmark.core.clusters.multi_node import NO_FILE_SYSTEM, VARIABLE, parse_multi_node
from batchmark.core.config import Config
from laptop.aws import AwsClients
from laptop.stack import ROOT
from tests.builders.scaling import FILE_SYSTEM, published
from tests.faults.targets import command, container, make_queue, resources_of

NODES = "nodes"  # name of the target
NAME = "fault-nodes"
PARAMETERS = "/airflow/variables"
ID_PARAMETER = f"{PARAMETERS}/{VARIABLE}_file_system"
MOUNT_POINT, IMAGES = "/fsx", "/images"
LUSTRE = {"IpProtocol": "tcp", "FromPort": 988, "ToPort": 1023}
# The job's own is meant for hosts that boot; here nodes start at once.
JOINING_SECONDS = 40
MOST_NODES = 2


class Layer:
    """What a run's file system leaves, and images for it."""

    def __init__(self, aws: AwsClients, config: Config, environment: Mapping[str, str]) -> None:
        self._fsx, self._ssm = aws.client("fsx"), aws.client("ssm")
        self._config = config
        self._environment = os.environ | environment

    def left(self) -> str:
        """What is there of it now, in words; empty if it is gone."""
        found = [
            f"file system {described['FileSystemId']} {described['Lifecycle']}"
            for described in file_systems.of_installation(self._fsx, self._config.name)
        ]
        named = file_systems.parameter(self._ssm, ID_PARAMETER).value
        if named != NO_FILE_SYSTEM:
            found.append(f"{ID_PARAMETER} names {named}")
        return ", ".join(found)

    def file_system_id(self) -> str:
        """The one that nodes mount."""
        return file_systems.parameter(self._ssm, ID_PARAMETER).value

    def make_images(self) -> None:
        """A few small ones in S3, where new file systems find them; none twice."""
        subprocess.run(
            [
                *(sys.executable, "-m", "batchmark_job", "images"),
                *("--to", f"s3://{self._config.bucket}{IMAGES}/"),
                *("--count", "16", "--size", "32", "--shards", "2", "--classes", "4"),
            ],
            cwd=ROOT / "job_container",
            env=self._environment,
            check=True,
            capture_output=True,
        )


def publish(aws: AwsClients, config: Config, instructions: Path) -> None:
    """Make the nodes' queue and job definition, and tell Airflow of them."""
    batch, ec2, ssm = (aws.client(name) for name in ("batch", "ec2", "ssm"))
    base = config.targets["c5.2xlarge"]
    resources = resources_of(batch, str(base.compute_environments.on_demand))
    subnet = resources["subnets"][0]
    (described,) = ec2.describe_subnets(SubnetIds=[subnet])["Subnets"]
    group = ec2.create_security_group(
        GroupName=NAME, Description="Lustre", VpcId=described["VpcId"]
    )["GroupId"]
    lustre = LUSTRE | {"UserIdGroupPairs": [{"GroupId": group}]}
    ec2.authorize_security_group_ingress(GroupId=group, IpPermissions=[lustre])
    user_data = base64.b64encode(f'FILE_SYSTEM_PARAMETER="{ID_PARAMETER}"\n'.encode()).decode()
    ec2.create_launch_template(LaunchTemplateName=NAME, LaunchTemplateData={"UserData": user_data})
    template = {"launchTemplateName": NAME, "version": "$Default"}
    queue = make_queue(batch, NAME, resources | {"launchTemplate": template})
    definition = batch.register_job_definition(
        jobDefinitionName=NAME,
        type="multinode",
        parameters={"suite": "scaling", "dtype": "suite", "run_id": "none", "output": "none"},
        nodeProperties={
            "mainNode": 0,
            "numNodes": MOST_NODES,
            "nodeRangeProperties": [
                {"targetNodes": "0:", "container": _container(config, instructions)}
            ],
        },
        retryStrategy={"attempts": 1},
        timeout={"attemptDurationSeconds": 600},
    )["jobDefinitionArn"]
    ssm.put_parameter(Name=ID_PARAMETER, Value=NO_FILE_SYSTEM, Type="String")
    told = published(
        name=config.name,
        region=config.region,
        target=NODES,
        device="cpu",
        instance_type=base.instance_type,
        vcpus=base.vcpus,
        gpus=0,
        most_nodes=MOST_NODES,
        job_queue=queue,
        job_definition=definition,
        compute_environment=NAME,
        timeout_seconds=600,
        mount_point=MOUNT_POINT,
        file_system=FILE_SYSTEM
        | {
            "subnet": subnet,
            "security_group": group,
            "repository": f"s3://{config.bucket}{IMAGES}/",
            "folder": IMAGES,
            "id_parameter": ID_PARAMETER,
        },
    )
    text = json.dumps(told)
    parse_multi_node(text).joined_to(config)
    ssm.put_parameter(Name=f"{PARAMETERS}/{VARIABLE}", Value=text, Type="String")


def _container(config: Config, instructions: Path) -> dict[str, Any]:
    told = command(instructions, NODES)
    return container(NODES, told, config.log_group, memory=1024) | {
        "environment": [
            {"name": "BATCHMARK_FILES", "value": f"{MOUNT_POINT}{IMAGES}"},
            {"name": "BATCHMARK_JOINING_SECONDS", "value": str(JOINING_SECONDS)},
        ],
        "volumes": [{"name": "fsx", "host": {"sourcePath": MOUNT_POINT}}],
        "mountPoints": [{"sourceVolume": "fsx", "containerPath": MOUNT_POINT}],
    }
