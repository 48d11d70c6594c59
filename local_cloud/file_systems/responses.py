"""Handles HTTP requests for file systems."""

from __future__ import annotations

import json
from typing import Any

from moto.fsx.responses import FSxResponse

from local_cloud.file_systems.models import FileSystemsBackend
from local_cloud.file_systems.records import Resource
from local_cloud.file_systems.requests import FIELDS, checked, missing


class FileSystemsResponse(FSxResponse):
    """moto's FSx responses, applied to our backend's file systems."""

    @property
    def file_systems(self) -> FileSystemsBackend:
        backend: FileSystemsBackend = self.fsx_backend  # type: ignore[assignment]
        return backend

    def call_action(self) -> Any:
        """Handle a call; refuse unsupported operations, even those that moto offers."""
        if self._get_action() not in FIELDS:
            raise missing(self._get_action())
        return super().call_action()

    def _request(self) -> dict[str, Any]:
        return checked(self._get_action(), self.body)

    def create_file_system(self) -> str:
        made = self.file_systems.create(self._request())
        return json.dumps({"FileSystem": self._described(made)})

    def describe_file_systems(self) -> str:
        found = self.file_systems.describe(self._request().get("FileSystemIds") or [])
        return json.dumps({"FileSystems": list(map(self._described, found))})

    def delete_file_system(self) -> str:
        deleted = self.file_systems.delete(self._request())
        answer = {"FileSystemId": deleted.id, "Lifecycle": deleted.lifecycle}
        return json.dumps({**answer, "LustreResponse": {}})

    def create_data_repository_association(self) -> str:
        made = self.file_systems.associate(self._request())
        return json.dumps({"Association": self._described(made)})

    def describe_data_repository_associations(self) -> str:
        found = self.file_systems.describe_associations(self._request())
        return json.dumps({"Associations": list(map(self._described, found))})

    def describe_data_repository_tasks(self) -> str:
        found = self.file_systems.describe_tasks(self._request())
        return json.dumps({"DataRepositoryTasks": list(map(self._described, found))})

    def _described(self, record: Resource) -> dict[str, Any]:
        return record.described(self.file_systems.list_tags_for_resource(record.resource_arn))
