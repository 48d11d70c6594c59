"""What `tests.warm` has ready before it forks local clouds: the server, and moto's services."""

import functools
import os

import boto3
import botocore.loaders
from moto.backends import get_backend
from moto.core import DEFAULT_ACCOUNT_ID
from moto.core.utils import get_service_model

from local_cloud.server import serve

__all__ = ["serve"]

SERVICES = (
    *("athena", "batch", "ec2", "ecr", "ecs", "eks", "events", "fsx", "glue", "iam"),
    *("logs", "s3", "sns", "sqs", "ssm", "sts"),
)

botocore.loaders.create_loader = functools.cache(botocore.loaders.create_loader)
boto3.Session().get_available_regions("ec2")  # reads the largest of AWS's models
for service in SERVICES:
    get_backend(service)
    get_service_model(service)
os.environ["MOTO_IAM_LOAD_MANAGED_POLICIES"] = "true"  # as `serve` does
get_backend("iam")[DEFAULT_ACCOUNT_ID]["aws"]  # with AWS's 1,580 policies
get_backend("ec2")[DEFAULT_ACCOUNT_ID]["us-east-1"]  # makes some thousand images
