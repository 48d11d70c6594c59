"""What is refused of a data repository association.

Source: FSx API Reference, CreateDataRepositoryAssociation.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from local_cloud.file_systems import repository
from local_cloud.file_systems.records import Association, FileSystem
from local_cloud.file_systems.requests import bad_request, missing


def check(
    request: dict[str, Any], file_system: FileSystem, others: Sequence[Association], account: str
) -> None:
    """Raise BadRequest for a CreateDataRepositoryAssociation request."""
    if file_system.lifecycle != "AVAILABLE":
        raise bad_request(
            f"File system '{file_system.id}' is {file_system.lifecycle}; it must be AVAILABLE"
        )
    if others:
        raise missing(f"second association of a file system, beside {others[0].id}")
    path = str(request.get("FileSystemPath") or "")
    if not path.startswith("/") or {".", ".."} & set(path.split("/")):
        raise bad_request(f"FileSystemPath must start with '/' and not lead up, and was {path!r}")
    asked = request["DataRepositoryPath"]
    if not repository.bucket_exists(account, asked):
        raise bad_request(f"DataRepositoryPath {asked}: {repository.gone(asked)}")
