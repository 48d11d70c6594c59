"""Manages FSx for Lustre file systems, their S3 links, and the SSM parameter for the current ID."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, NamedTuple

from batchmark.aws.batch_targets import none_if_missing
from batchmark.aws.boto_clients import all_pages
from batchmark.core.clusters.multi_node import FileSystem
from batchmark.core.names import INSTALLATION_TAG

Described = dict[str, Any]


def create(fsx: Any, settings: FileSystem, *, token: str, tags: Mapping[str, str]) -> Described:
    """Create a file system, or return the one already created with this token."""
    lustre: dict[str, object] = {"DeploymentType": settings.deployment_type}
    if settings.throughput is not None:
        lustre["PerUnitStorageThroughput"] = settings.throughput
    key = {"KmsKeyId": settings.kms_key_arn} if settings.kms_key_arn else {}
    created = fsx.create_file_system(
        ClientRequestToken=token,
        FileSystemType="LUSTRE",
        FileSystemTypeVersion=settings.version,
        StorageType="SSD",
        StorageCapacity=settings.storage_gib,
        SubnetIds=[settings.subnet],
        SecurityGroupIds=[settings.security_group],
        LustreConfiguration=lustre,
        Tags=_pairs(tags),
        **key,
    )
    return dict(created["FileSystem"])


def describe(fsx: Any, file_system_id: str) -> Described | None:
    """Describe a file system; return None once it has been deleted."""
    answer = none_if_missing(fsx.describe_file_systems, FileSystemIds=[file_system_id])
    return answer and answer["FileSystems"][0]


def link(
    fsx: Any, settings: FileSystem, file_system_id: str, *, token: str, tags: Mapping[str, str]
) -> None:
    """Link the file system's folder to S3, importing names now and contents on first read."""
    fsx.create_data_repository_association(
        ClientRequestToken=token,
        FileSystemId=file_system_id,
        FileSystemPath=settings.folder,
        DataRepositoryPath=settings.repository,
        BatchImportMetaDataOnCreate=True,
        Tags=_pairs(tags),
    )


def link_of(fsx: Any, file_system_id: str) -> Described | None:
    """Return a file system's S3 link, or None if it has none yet."""
    answer = fsx.describe_data_repository_associations(Filters=_of(file_system_id))
    return next(iter(answer["Associations"]), None)


def tasks_of(fsx: Any, file_system_id: str) -> list[Described]:
    """List a file system's data repository tasks, such as the import of names from S3."""
    return list(
        fsx.describe_data_repository_tasks(Filters=_of(file_system_id))["DataRepositoryTasks"]
    )


def _of(file_system_id: str) -> list[dict[str, Any]]:
    return [{"Name": "file-system-id", "Values": [file_system_id]}]


def delete(fsx: Any, file_system_id: str) -> None:
    """Delete a file system and its links; the objects in S3 are kept."""
    none_if_missing(fsx.delete_file_system, FileSystemId=file_system_id)


def of_installation(fsx: Any, name: str) -> list[Described]:
    """List an installation's file systems, including those being deleted."""
    return [
        described
        for described in all_pages(fsx, "describe_file_systems", "FileSystems")
        if tags_of(described).get(INSTALLATION_TAG) == name
    ]


def tags_of(described: Mapping[str, Any]) -> dict[str, str]:
    """Return a resource's tags as a dictionary; FSx and EC2 describe them as lists of pairs."""
    return {tag["Key"]: tag["Value"] for tag in described.get("Tags", ())}


def why_failed(described: Mapping[str, Any]) -> str:
    """Return FSx's reason for the failure of a file system or link, or say that it gave none."""
    details = described.get("FailureDetails", {})
    return str(details.get("Message") or "FSx gave no reason")


class Parameter(NamedTuple):
    """The SSM parameter from which booting nodes learn which file system to mount, if any."""

    value: str  # id of a file system, or NO_FILE_SYSTEM
    changed_at: datetime


def parameter(ssm: Any, name: str) -> Parameter:
    found = ssm.get_parameter(Name=name)["Parameter"]
    return Parameter(found["Value"], found["LastModifiedDate"])


def set_parameter(ssm: Any, name: str, value: str) -> None:
    ssm.put_parameter(Name=name, Value=value, Overwrite=True)


def _pairs(tags: Mapping[str, str]) -> list[dict[str, str]]:
    return [{"Key": key, "Value": value} for key, value in tags.items()]
