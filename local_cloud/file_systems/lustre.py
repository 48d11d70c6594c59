"""What is refused of a new Lustre file system.

Source: FSx API Reference, CreateFileSystem and CreateFileSystemLustreConfiguration.
"""

from __future__ import annotations

from typing import Any

from local_cloud.file_systems.requests import bad_request, missing, refuse_others

SCRATCH = "SCRATCH_2"
DEPLOYMENTS = (SCRATCH, "PERSISTENT_1", "PERSISTENT_2")
VERSIONS = ("2.12", "2.15")  # that can be linked with S3
THROUGHPUT = "PerUnitStorageThroughput"
SMALL_GIB, STEP_GIB = 1200, 2400


def check(request: dict[str, Any]) -> None:
    """Raise BadRequest for a CreateFileSystem request, but for its network."""
    configuration = request.get("LustreConfiguration") or {}
    refuse_others(configuration, ("DeploymentType", THROUGHPUT))
    deployment = configuration.get("DeploymentType", "SCRATCH_1")
    for field, value, emulated in (
        ("FileSystemType", request["FileSystemType"], ("LUSTRE",)),
        ("StorageType", request.get("StorageType", "SSD"), ("SSD",)),
        ("FileSystemTypeVersion", request.get("FileSystemTypeVersion", "2.10"), VERSIONS),
        ("DeploymentType", deployment, DEPLOYMENTS),
    ):
        if value not in emulated:
            raise missing(f"{field} {value}, only {', '.join(emulated)}")
    is_scratch = deployment == SCRATCH
    if is_scratch and request.get("KmsKeyId"):
        raise bad_request(f"KmsKeyId is not supported for deployment type {deployment}")
    if is_scratch == (THROUGHPUT in configuration):
        rule = "is not supported" if is_scratch else "must be provided"
        raise bad_request(f"{THROUGHPUT} {rule} for deployment type {deployment}")
    capacity = request.get("StorageCapacity", 0)
    if capacity != SMALL_GIB and (capacity == 0 or capacity % STEP_GIB):
        raise bad_request(
            f"Invalid Lustre storage capacity: {capacity}. It must be {SMALL_GIB} or a multiple of "
            f"{STEP_GIB} GiB"
        )
