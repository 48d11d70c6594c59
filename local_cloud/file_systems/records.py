"""File systems and their data repository associations, as FSx describes them."""

from __future__ import annotations

from dataclasses import dataclass
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
    mount_name: str

    def described(self, tags: Tags) -> dict[str, Any]:
        _, _, _, region, account, _ = self.resource_arn.split(":", 5)
        request = self.request
        fields = {
            "OwnerId": account,
            "CreationTime": self.created_at,
            "FileSystemId": self.id,
            "FileSystemType": "LUSTRE",
            "Lifecycle": self.lifecycle,
            "FailureDetails": failure_details(self.lifecycle == "FAILED", self.failure),
            "StorageCapacity": request.get("StorageCapacity"),
            "StorageType": "SSD",
            "VpcId": self.vpc_id,
            "SubnetIds": request["SubnetIds"],
            "NetworkInterfaceIds": [f"eni-{self.id.removeprefix('fs-')}"],
            "DNSName": f"{self.id}.fsx.{region}.amazonaws.com",
            "KmsKeyId": request.get("KmsKeyId"),
            "ResourceARN": self.resource_arn,
            "Tags": tags,
            "LustreConfiguration": {
                "DataCompressionType": "NONE",
                **request.get("LustreConfiguration", {}),
                "MountName": self.mount_name,
            },
            "FileSystemTypeVersion": request.get("FileSystemTypeVersion"),
        }
        return {name: value for name, value in fields.items() if value is not None}


@dataclass(kw_only=True)
class Association(Resource):
    """A folder of a file system that is linked with a prefix in S3.

    `was_available` tells whether its import has begun, if it asks for one.
    """

    file_system_id: str
    path: str
    repository: str
    was_available: bool = False

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
            "ImportedFileChunkSize": 1024,
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
