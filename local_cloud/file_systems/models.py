"""Extends moto's FSx backend with a life cycle. moto looks for `urls` next to this module."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from moto.fsx.exceptions import FileSystemNotFound
from moto.fsx.models import FSxBackend, fsx_backends
from moto.moto_api._internal import mock_random

from local_cloud.clock import later
from local_cloud.faults.kinds import (
    AssociationMisconfigured,
    FileSystemCreationFails,
    FileSystemDeletionRefused,
    FileSystemDeletionSlow,
    FileSystemFault,
    FileSystemFull,
)
from local_cloud.faults.under_way import strike
from local_cloud.file_systems import network, repository
from local_cloud.file_systems.folders import Folders, make_full
from local_cloud.file_systems.records import Association, FileSystem, ImportTask, Resource
from local_cloud.file_systems.requests import (
    bad_request,
    check_association,
    earlier_record,
    refuse_other_kinds,
    requested_file_systems,
)

ID_DIGITS = 17  # hexadecimal, as in AWS's own ids
MOUNT_NAME_LETTERS = 8  # limit of FSx's LustreFileSystemMountName
BUSY = "The file system has a data repository task that is pending or executing"

Made = TypeVar("Made", bound=Resource)
Part = TypeVar("Part", Association, ImportTask)
Fault = TypeVar("Fault", bound=FileSystemFault)


class FileSystemsBackend(FSxBackend):
    """The FSx backend for one account and region.

    Attributes:
        seconds: how long CREATING and DELETING take.
        folders: the local folders that hold the file systems' content.
        lock: guards all file systems.
    """

    seconds: ClassVar[float] = 0.0
    folders: ClassVar[Folders] = Folders()
    lock: ClassVar[threading.RLock] = threading.RLock()

    file_systems: dict[str, FileSystem]  # type: ignore[assignment]

    def __init__(self, region_name: str, account_id: str) -> None:
        super().__init__(region_name, account_id)
        self.associations: dict[str, Association] = {}
        self.tasks: dict[str, ImportTask] = {}

    def create(self, request: dict[str, Any]) -> FileSystem:
        """Handle CreateFileSystem; a repeated request with the same token gets the first result."""
        with self.lock:
            refuse_other_kinds(request)
            if (found := earlier_record(self.file_systems.values(), request)) is not None:
                return found
            vpc_id = network.vpc_of(request, self.account_id, self.region_name)
            failing = strike(FileSystemCreationFails)
            made = FileSystem(
                **self._common_fields("fs", "file-system/{}", request, time.time()),
                vpc_id=vpc_id,
                mount_name=mock_random.get_random_hex(MOUNT_NAME_LETTERS),
                failure=failing.reason if failing else None,
            )
            return self._add(self.file_systems, made)

    def describe(self, ids: list[str]) -> list[FileSystem]:
        """Handle DescribeFileSystems; raise FileSystemNotFound for an unknown id."""
        with self.lock:
            self.settle()
            return list(map(self.find, ids)) if ids else list(self.file_systems.values())

    def delete(self, request: dict[str, Any]) -> FileSystem:
        """Handle DeleteFileSystem; a file system that is already DELETING is left as it is."""
        with self.lock:
            self.settle()
            found = self.find(request["FileSystemId"])
            tasks = parts_of(found.id, self.tasks)
            if active_fault(FileSystemDeletionRefused, found.id) or any(
                each.lifecycle == "EXECUTING" for each in tasks
            ):
                raise bad_request(BUSY)
            if found.lifecycle != "DELETING":
                slow = active_fault(FileSystemDeletionSlow, found.id)
                seconds = self.seconds + (slow.delay_seconds if slow else 0.0)
                for each in (found, *parts_of(found.id, self.associations)):
                    each.lifecycle, each.due_at = "DELETING", time.time() + seconds
                self._settle_in_time(found)
            return found

    def associate(self, request: dict[str, Any]) -> Association:
        """Handle CreateDataRepositoryAssociation."""
        with self.lock:
            self.settle()
            file_system = self.find(request["FileSystemId"])
            if (found := earlier_record(self.associations.values(), request)) is not None:
                return found
            others = parts_of(file_system.id, self.associations)
            check_association(request, file_system, others, self.account_id)
            arn = f"association/{file_system.id}/{{}}"
            made = Association(
                **self._common_fields("dra", arn, request, time.time()),
                file_system_id=file_system.id,
                path=request["FileSystemPath"],
                repository=request["DataRepositoryPath"],
            )
            return self._add(self.associations, made)

    def describe_associations(self, request: dict[str, Any]) -> list[Association]:
        """Handle DescribeDataRepositoryAssociations; raise FileSystemNotFound for unknown ids."""
        with self.lock:
            self.settle()
            wanted = [
                self.find(each).id for each in requested_file_systems(request, self.file_systems)
            ]
            return [each for each in self.associations.values() if each.file_system_id in wanted]

    def describe_tasks(self, request: dict[str, Any]) -> list[ImportTask]:
        """Handle DescribeDataRepositoryTasks."""
        with self.lock:
            self.settle()
            wanted = requested_file_systems(request, self.file_systems)
            return [each for each in self.tasks.values() if each.file_system_id in wanted]

    def find(self, file_system_id: str) -> FileSystem:
        found = self.file_systems.get(file_system_id)
        if found is None:
            raise FileSystemNotFound(file_system_id)
        return found

    def settle(self) -> None:
        """Apply all state changes that are due by now."""
        with self.lock:
            for file_system in list(self.file_systems.values()):
                self._settle_file_system(file_system)
            for association in list(self.associations.values()):
                self._settle_association(association)
            for task in self.tasks.values():
                self._settle_task(task)

    def fill(self) -> None:
        """Fill up the file systems covered by an active FileSystemFull fault."""
        for file_system_id, each in self.file_systems.items():
            if each.lifecycle != "AVAILABLE" or self.folders.is_full(file_system_id):
                continue
            if fault := active_fault(FileSystemFull, file_system_id):
                make_full(self.folders.path(file_system_id), fault.free_mib)

    def resume(self) -> None:
        with self.lock:
            for each in self.file_systems.values():
                if each.lifecycle == "AVAILABLE":
                    self.folders.make(each.id)
            for found in (self.file_systems, self.associations, self.tasks):
                for waiting in found.values():
                    self._settle_in_time(waiting)

    def reset(self) -> None:
        with self.lock:
            for file_system_id in self.file_systems:
                self.folders.remove(file_system_id)
            super().reset()

    def _settle_file_system(self, found: FileSystem) -> None:
        if found.due_at is None or time.time() < found.due_at:
            return
        found.due_at = None
        if found.lifecycle == "DELETING":
            self._forget(self.file_systems.pop(found.id))
            self.folders.remove(found.id)
            for each in parts_of(found.id, self.associations):
                self._forget(self.associations.pop(each.id))
            for task in parts_of(found.id, self.tasks):
                self._forget(self.tasks.pop(task.id))
        elif found.failure is not None:
            found.lifecycle = "FAILED"
        else:
            self.folders.make(found.id)
            found.lifecycle = "AVAILABLE"
            self.fill()

    def _settle_association(self, found: Association) -> None:
        if found.due_at is not None and time.time() < found.due_at:
            return
        since, found.due_at = found.due_at or time.time(), None
        if found.lifecycle == "DELETING":
            return  # deleted along with its file system
        if fault := active_fault(AssociationMisconfigured, found.file_system_id):
            found.lifecycle, found.failure = "MISCONFIGURED", fault.reason
        elif not repository.bucket_exists(self.account_id, found.repository):
            found.lifecycle, found.failure = (
                "MISCONFIGURED",
                repository.missing_bucket(found.repository),
            )
        else:
            found.lifecycle, found.failure = "AVAILABLE", None
            if not found.was_available:
                found.was_available = True
                self._folder(found).mkdir(parents=True, exist_ok=True)
                if found.request.get("BatchImportMetaDataOnCreate"):
                    self._begin_import(found, since)

    def _begin_import(self, found: Association, since: float) -> None:
        task = ImportTask(
            **self._common_fields("task", "task/{}", {}, since),
            lifecycle="EXECUTING",
            association_id=found.id,
            file_system_id=found.file_system_id,
            path=found.path,
        )
        self._add(self.tasks, task)

    def _settle_task(self, task: ImportTask) -> None:
        if task.due_at is None or time.time() < task.due_at:
            return
        task.due_at, task.lifecycle = None, "SUCCEEDED"
        found = self.associations[task.association_id]
        try:
            repository.import_objects(self.account_id, found.repository, self._folder(found))
        except repository.RepositoryError as error:
            task.lifecycle, task.failure = "FAILED", str(error)

    def _folder(self, found: Association) -> Path:
        return self.folders.path(found.file_system_id) / found.path.strip("/")

    def _common_fields(
        self, prefix: str, arn: str, request: dict[str, Any], since: float
    ) -> dict[str, Any]:
        """Return the fields all new resources share; `arn` ends their ARNs, with {} for the id."""
        resource_id = f"{prefix}-{mock_random.get_random_hex(ID_DIGITS)}"
        ending = arn.format(resource_id)
        return {
            "id": resource_id,
            "resource_arn": f"arn:aws:fsx:{self.region_name}:{self.account_id}:{ending}",
            "request": request,
            "created_at": since,
            "due_at": since + self.seconds,
        }

    def _add(self, known: dict[str, Made], made: Made) -> Made:
        known[made.id] = made
        self.tagger.tag_resource(made.resource_arn, made.request.get("Tags") or [])
        self._settle_in_time(made)
        return made

    def _forget(self, gone: Resource) -> None:
        self.tagger.delete_all_tags_for_resource(gone.resource_arn)

    def _settle_in_time(self, waiting: Resource) -> None:
        """Schedule `settle` for when a change is due, so that no request has to trigger it."""
        if waiting.due_at is not None:
            later(max(0.0, waiting.due_at - time.time()), self.settle)


def parts_of(file_system_id: str, known: dict[str, Part]) -> list[Part]:
    return [each for each in known.values() if each.file_system_id == file_system_id]


def active_fault(kind: type[Fault], file_system_id: str) -> Fault | None:
    """Return the first unspent fault of this kind covering a file system; count it as applied."""
    return strike(kind, lambda fault: fault.covers(file_system_id))


def used_backends() -> list[FileSystemsBackend]:
    """Return the FSx backends for all accounts and regions used so far."""
    found = [backend for regions in fsx_backends.values() for backend in regions.values()]
    return [backend for backend in found if isinstance(backend, FileSystemsBackend)]


def install(seconds: float, folder: Path | None) -> Folders:
    """Replace moto's FSx backend; return its folders, which the caller must close.

    Creating and deleting a file system each take `seconds`.
    """
    fsx_backends.backend = FileSystemsBackend
    FileSystemsBackend.seconds = seconds
    FileSystemsBackend.folders = Folders(folder)
    return FileSystemsBackend.folders


def fill_all() -> None:
    """In all backends, fill up the file systems covered by an active FileSystemFull fault.

    Raises:
        NotPermittedError: this process can't mount anything.
    """
    with FileSystemsBackend.lock:
        for backend in used_backends():
            backend.fill()


def make_room() -> None:
    """Free space in all full file systems, then refill those that other active faults affect."""
    with FileSystemsBackend.lock:
        FileSystemsBackend.folders.make_room()
        fill_all()


def resume() -> None:
    """Resume from an earlier server's state; call this once, before the first request."""
    for backend in used_backends():
        backend.resume()
