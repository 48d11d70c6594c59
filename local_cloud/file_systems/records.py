"""File systems and their data repository associations, as FSx describes them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

Tags = list[dict[str, str]]


@dataclass(kw_only=True)
class Resource:
    """What FSx makes at a request. `due_at` is when CREATING or DELETING is over."""

    id: str
    resource_arn: str
    request: dict[str, Any]
    created_at: float
    due_at: float | None
    lifecycle: str = "CREATING"
    failure: str | None = None


@dataclass(kw_only=True)
class FileSystem(Resource):
    """Its creation ends FAILED where there is a `failure`."""

    vpc_id: str
    version: str
    mount_name: str

    def described(self, tags: Tags) -> dict[str, Any]:
        _, _, _, region, account, _ = self.resource_arn.split(":", 5)
        request = self.request
        defaults = {"DeploymentType": "SCRATCH_1", "DataCompressionType": "NONE"}
        fields = {
            "OwnerId": account,
            "CreationTime": self.created_at,
            "FileSystemId": self.id,
            "FileSystemType": "LUSTRE",
            "Lifecycle": self.lifecycle,
            "FailureDetails": failure_details(self.lifecycle == "FAILED", self.failure),
            "StorageCapacity": request["StorageCapacity"],
            "StorageType": request.get("StorageType") or "SSD",
            "VpcId": self.vpc_id,
            "SubnetIds": request["SubnetIds"],
            "NetworkInterfaceIds": [f"eni-{self.id.removeprefix('fs-')}"],
            "DNSName": f"{self.id}.fsx.{region}.amazonaws.com",
            "KmsKeyId": request.get("KmsKeyId"),
            "ResourceARN": self.resource_arn,
            "Tags": tags,
            "LustreConfiguration": {
                **defaults,
                **(request.get("LustreConfiguration") or {}),
                "MountName": self.mount_name,
            },
            "FileSystemTypeVersion": self.version,
        }
        return {name: value for name, value in fields.items() if value is not None}


@dataclass(kw_only=True)
class Association(Resource):
    """A folder of a file system that is linked with a prefix in S3.

    `known` are the versions of the objects that were looked at last; None before the first look.
    """

    file_system_id: str
    path: str
    repository: str
    known: dict[str, str] | None = field(default=None, repr=False)
    deletes_data: bool = False

    @property
    def events(self) -> list[str]:
        """What of S3 is imported by itself."""
        policy = (self.request.get("S3") or {}).get("AutoImportPolicy") or {}
        return policy.get("Events") or []

    def described(self, tags: Tags) -> dict[str, Any]:
        fields = {
            "AssociationId": self.id,
            "ResourceARN": self.resource_arn,
            "FileSystemId": self.file_system_id,
            "Lifecycle": self.lifecycle,
            "FailureDetails": failure_details(self.lifecycle == "MISCONFIGURED", self.failure),
            "FileSystemPath": self.path,
            "DataRepositoryPath": self.repository,
            "BatchImportMetaDataOnCreate": bool(self.request.get("BatchImportMetaDataOnCreate")),
            "ImportedFileChunkSize": self.request.get("ImportedFileChunkSize") or 1024,
            "S3": self.request.get("S3") or {},
            "Tags": tags,
            "CreationTime": self.created_at,
        }
        return {name: value for name, value in fields.items() if value is not None}


@dataclass(kw_only=True)
class ImportTask(Resource):
    """Brings what is in S3 to an association's folder; `due_at` is when EXECUTING is over."""

    association_id: str
    file_system_id: str
    path: str

    def described(self, tags: Tags) -> dict[str, Any]:
        fields = {
            "TaskId": self.id,
            "ResourceARN": self.resource_arn,
            "Type": "IMPORT_METADATA_FROM_REPOSITORY",
            "Lifecycle": self.lifecycle,
            "FailureDetails": failure_details(self.lifecycle == "FAILED", self.failure),
            "FileSystemId": self.file_system_id,
            "Paths": [self.path],
            "CreationTime": self.created_at,
            "StartTime": self.created_at,
            "Tags": tags,
        }
        return {name: value for name, value in fields.items() if value is not None}


def failure_details(has_failed: bool, message: str | None) -> dict[str, str] | None:
    return {"Message": message} if has_failed and message else None
