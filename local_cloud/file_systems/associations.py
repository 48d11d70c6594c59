"""What FSx refuses of a data repository association.

Source: FSx API Reference, CreateDataRepositoryAssociation.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from local_cloud.file_systems import lustre, repository
from local_cloud.file_systems.records import Association, FileSystem
from local_cloud.file_systems.requests import RefusedError, bad_request

MOST = 8
MOST_PER_PAGE = 25
WITHOUT = ("2.10",)  # Lustre versions


def check(
    request: dict[str, Any], file_system: FileSystem, others: Sequence[Association], account: str
) -> str:
    """The path in the file system that is linked; raises FSx's error for what it refuses."""
    check_file_system(file_system)
    if len(others) >= MOST:
        raise RefusedError(
            "ServiceLimitExceeded",
            f"A file system can have at most {MOST} data repository associations",
            Limit="FILE_SYSTEM_COUNT",
        )
    path = str(request.get("FileSystemPath") or "")
    if not path.startswith("/"):
        raise bad_request(f"FileSystemPath must start with '/', and was {path!r}")
    if {".", ".."} & set(path.split("/")):
        raise bad_request(f"FileSystemPath {path} must not lead up")
    for other in others:
        if overlap(path, other.path):
            raise bad_request(f"FileSystemPath {path} overlaps {other.path} of {other.id}")
    check_repository(request, others, account)
    return path


def check_file_system(file_system: FileSystem) -> None:
    deployment = lustre.deployment_type(file_system.request)
    if deployment == "SCRATCH_1" or file_system.version in WITHOUT:
        raise RefusedError(
            "UnsupportedOperation",
            "Data repository associations are not supported on file systems of type "
            f"{deployment} with Lustre {file_system.version}",
        )
    if file_system.lifecycle != "AVAILABLE":
        raise bad_request(
            f"File system '{file_system.id}' is {file_system.lifecycle}; it must be AVAILABLE"
        )


def check_repository(request: dict[str, Any], others: Sequence[Association], account: str) -> None:
    asked = request["DataRepositoryPath"]
    bucket, prefix = repository.parts_of(asked)
    if not bucket:
        raise bad_request(f"DataRepositoryPath must be like s3://bucket/prefix/, and was {asked}")
    if not repository.bucket_exists(account, asked):
        raise bad_request(
            f"DataRepositoryPath {asked}: the bucket {bucket} does not exist, "
            "or FSx may not access it"
        )
    if any(repository.parts_of(other.repository) == (bucket, prefix) for other in others):
        raise bad_request(f"DataRepositoryPath {asked} is linked with this file system already")
    if (request.get("S3") or {}).get("AutoExportPolicy"):
        raise bad_request("The local cloud exports nothing to S3: leave out S3.AutoExportPolicy")


def overlap(one: str, other: str) -> bool:
    first, second = (f"/{path.strip('/')}/".replace("//", "/") for path in (one, other))
    return first.startswith(second) or second.startswith(first)


def kept(association: Association, filters: Sequence[dict[str, Any]]) -> bool:
    """Whether an association has what all filters ask for."""
    fields = {"file-system-id": association.file_system_id, "data-repository-type": "S3"}
    return all(fields.get(each["Name"]) in (each.get("Values") or []) for each in filters)
