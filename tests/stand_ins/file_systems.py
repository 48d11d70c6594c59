"""FSx and SSM in memory, for tests of a run's file system."""

from __future__ import annotations

import itertools
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

from botocore.session import get_session
from botocore.validate import validate_parameters

from tests.stand_ins.batch import client_error

CREATED = datetime(2026, 11, 26, 9, tzinfo=UTC)
MODELS = {name: get_session().get_service_model(name) for name in ("fsx", "ssm")}


def check(service, operation, arguments):
    """Refuse what boto3 would refuse."""
    shape = MODELS[service].operation_model(operation).input_shape
    validate_parameters(arguments, shape)


class FakeFsx:
    """File systems and links that take `steps` descriptions to come up, and to be gone.

    A link that is there imports names for as long, during which nothing can be deleted. `becomes`,
    `link_becomes` and `import_becomes` are what they are after that. `failures` are raised by the
    next calls of an operation; with `loses_answer`, a creation that fails has done its work.
    """

    def __init__(self, steps=2):
        self.steps = steps
        self.there: dict[str, dict[str, Any]] = {}
        self.links: dict[str, dict[str, Any]] = {}
        self.becomes = self.link_becomes = "AVAILABLE"
        self.import_becomes = "SUCCEEDED"
        self.imports: dict[str, dict[str, Any]] = {}
        self.hides_imports = 0  # for so many looks
        self.failures: dict[str, list[Exception]] = {}
        self.loses_answer = False
        self.deleted: list[str] = []
        self.requests: list[dict[str, Any]] = []
        self._numbers = itertools.count(1)

    def create_file_system(self, **request):
        check("fsx", "CreateFileSystem", request)
        if not self.loses_answer:
            self._fail("create_file_system")
        self.requests.append(request)
        token = request["ClientRequestToken"]
        found = next((one for one in self.there.values() if one["token"] == token), None)
        if found is None:
            file_system_id = f"fs-{next(self._numbers):017x}"
            found = {
                "token": token,
                "FileSystemId": file_system_id,
                "FileSystemType": request["FileSystemType"],
                "StorageCapacity": request["StorageCapacity"],
                "CreationTime": CREATED,
                "Lifecycle": "CREATING",
                "Tags": request["Tags"],
                "left": self.steps,
            }
            self.there[file_system_id] = found
        if self.loses_answer:
            self._fail("create_file_system")
        return {"FileSystem": dict(found)}

    def describe_file_systems(self, **request):
        check("fsx", "DescribeFileSystems", request)
        self._fail("describe_file_systems")
        ids = request.get("FileSystemIds")
        for file_system_id in ids or ():
            self._advance(self.there.get(file_system_id), self.becomes)
        self.there = {key: one for key, one in self.there.items() if one["Lifecycle"] != "GONE"}
        if ids and any(one not in self.there for one in ids):
            raise client_error("FileSystemNotFound")
        return {"FileSystems": [dict(self.there[one]) for one in ids or self.there]}

    def _advance(self, one, becomes):
        if one is None or one["Lifecycle"] not in ("CREATING", "EXECUTING", "DELETING"):
            return
        one["left"] -= 1
        if one["left"] <= 0:
            one["Lifecycle"] = "GONE" if one["Lifecycle"] == "DELETING" else becomes
            if one["Lifecycle"] in ("FAILED", "MISCONFIGURED"):
                one["FailureDetails"] = {"Message": "the subnet has no free address"}

    def create_data_repository_association(self, **request):
        check("fsx", "CreateDataRepositoryAssociation", request)
        self._fail("create_data_repository_association")
        if self.there[request["FileSystemId"]]["Lifecycle"] != "AVAILABLE":
            raise client_error("BadRequest")
        self.requests.append(request)
        self.links[request["FileSystemId"]] = {"Lifecycle": "CREATING", "left": self.steps}
        return {"Association": {}}

    def describe_data_repository_associations(self, **request):
        check("fsx", "DescribeDataRepositoryAssociations", request)
        self._fail("describe_data_repository_associations")
        ((file_system_id,),) = [each["Values"] for each in request["Filters"]]
        link = self.links.get(file_system_id)
        self._advance(link, self.link_becomes)
        if link and link["Lifecycle"] == "AVAILABLE" and file_system_id not in self.imports:
            self.imports[file_system_id] = {"Lifecycle": "EXECUTING", "left": self.steps}
        return {"Associations": [dict(link)] if link else []}

    def describe_data_repository_tasks(self, **request):
        check("fsx", "DescribeDataRepositoryTasks", request)
        self._fail("describe_data_repository_tasks")
        ((file_system_id,),) = [each["Values"] for each in request["Filters"]]
        self.hides_imports -= 1
        if self.hides_imports >= 0:
            return {"DataRepositoryTasks": []}
        task = self.imports.get(file_system_id)
        self._advance(task, self.import_becomes)
        return {"DataRepositoryTasks": [dict(task)] if task else []}

    def delete_file_system(self, **request):
        check("fsx", "DeleteFileSystem", request)
        self._fail("delete_file_system")
        task = self.imports.get(request["FileSystemId"])
        self._advance(task, self.import_becomes)
        if task and task["Lifecycle"] == "EXECUTING":
            raise client_error("BadRequest")
        found = self.there.get(request["FileSystemId"])
        if found is None:
            raise client_error("FileSystemNotFound")
        found |= {"Lifecycle": "DELETING", "left": self.steps}
        self.deleted.append(request["FileSystemId"])
        return {"FileSystemId": request["FileSystemId"], "Lifecycle": "DELETING"}

    def get_paginator(self, operation):
        assert operation == "describe_file_systems"
        return SimpleNamespace(paginate=lambda: iter([self.describe_file_systems()]))

    def _fail(self, operation):
        if self.failures.get(operation):
            raise self.failures[operation].pop(0)


class FakeSsm:
    def __init__(self, name):
        self.values = {name: "none"}
        self.history = []

    def get_parameter(self, **request):
        check("ssm", "GetParameter", request)
        found = {"Value": self.values[request["Name"]], "LastModifiedDate": CREATED}
        return {"Parameter": found}

    def put_parameter(self, **request):
        check("ssm", "PutParameter", request)
        assert request["Name"] in self.values, "Terraform makes it"
        self.values[request["Name"]] = request["Value"]
        self.history.append(request["Value"])


def after(seconds):
    return CREATED + timedelta(seconds=seconds)
