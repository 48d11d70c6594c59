"""File systems and their data repository associations, as FSx describes them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

FAILED = ("FAILED", "MISCONFIGURED")


@dataclass(kw_only=True)
class Resource:
    """An FSx resource. `due_at` is when its CREATING, EXECUTING or DELETING state will end."""

    id: str
    resource_arn: str
    request: dict[str, Any]
    created_at: float
    due_at: float | None
    lifecycle: str = "CREATING"
    failure: str | None = None

    def described(self, tags: list[dict[str, str]]) -> dict[str, Any]:
        has_failed = self.lifecycle in FAILED and self.failure
        fields = {
            **self.own_fields(),
            "ResourceARN": self.resource_arn,
            "Lifecycle": self.lifecycle,
            "FailureDetails": {"Message": self.failure} if has_failed else None,
            "CreationTime": self.created_at,
            "Tags": tags,
        }
        return {name: value for name, value in fields.items() if value is not None}

    def own_fields(self) -> dict[str, Any]:
        """Return the fields specific to this kind of resource."""
        raise NotImplementedError


@dataclass(kw_only=True)
class FileSystem(Resource):
    """A file system; if `failure` is set, its creation ends in FAILED."""

    vpc_id: str
    mount_name: str

    def own_fields(self) -> dict[str, Any]:
        _, _, _, region, account, _ = self.resource_arn.split(":", 5)
        request = self.request
        return {
            "OwnerId": account,
            "FileSystemId": self.id,
            "FileSystemType": "LUSTRE",
            "StorageCapacity": request.get("StorageCapacity"),
            "StorageType": "SSD",
            "VpcId": self.vpc_id,
            "SubnetIds": request["SubnetIds"],
            "NetworkInterfaceIds": [f"eni-{self.id.removeprefix('fs-')}"],
            "DNSName": f"{self.id}.fsx.{region}.amazonaws.com",
            "KmsKeyId": request.get("KmsKeyId"),
            "LustreConfiguration": {
                "DataCompressionType": "NONE",
                **request.get("LustreConfiguration", {}),
                "MountName": self.mount_name,
            },
            "FileSystemTypeVersion": request.get("FileSystemTypeVersion"),
        }


@dataclass(kw_only=True)
class Association(Resource):
    """A link between a file system's folder and an S3 prefix.

    `was_available`: whether it has ever been AVAILABLE and its import, if requested, has started.
    """

    file_system_id: str
    path: str
    repository: str
    was_available: bool = False

    def own_fields(self) -> dict[str, Any]:
        return {
            "AssociationId": self.id,
            "FileSystemId": self.file_system_id,
            "FileSystemPath": self.path,
            "DataRepositoryPath": self.repository,
            "BatchImportMetaDataOnCreate": bool(self.request.get("BatchImportMetaDataOnCreate")),
            "ImportedFileChunkSize": 1024,
        }


@dataclass(kw_only=True)
class ImportTask(Resource):
    """A task that copies objects from S3 to an association's folder."""

    association_id: str
    file_system_id: str
    path: str

    def own_fields(self) -> dict[str, Any]:
        return {
            "TaskId": self.id,
            "Type": "IMPORT_METADATA_FROM_REPOSITORY",
            "FileSystemId": self.file_system_id,
            "Paths": [self.path],
            "StartTime": self.created_at,
        }
