"""What FSx refuses of a new Lustre file system, and the defaults that it fills in.

Source: FSx API Reference, CreateFileSystem and CreateFileSystemLustreConfiguration.
"""

from __future__ import annotations

from typing import Any

from local_cloud.file_systems.requests import RefusedError, bad_request

SCRATCH = ("SCRATCH_1", "SCRATCH_2")
# By deployment type and storage type.
THROUGHPUTS = {
    ("PERSISTENT_1", "SSD"): (50, 100, 200),
    ("PERSISTENT_1", "HDD"): (12, 40),
    ("PERSISTENT_2", "SSD"): (125, 250, 500, 1000),
}
SMALL_CAPACITIES = (1200, 2400)
STEP_GIB, OLD_STEP_GIB = 2400, 3600
HDD_STEPS_GIB = {12: 6000, 40: 1800}  # by throughput
VERSIONS = ("2.10", "2.12", "2.15")
OTHER_KINDS = ("WindowsConfiguration", "OntapConfiguration", "OpenZFSConfiguration", "NetworkType")
MISSING = (
    "ImportPath",
    "ExportPath",
    "AutoImportPolicy",
    "ImportedFileChunkSize",
    "EfaEnabled",
    "ThroughputCapacity",
    "DataReadCacheConfiguration",
)


def check(request: dict[str, Any]) -> None:
    """Raise FSx's error for a CreateFileSystem request that it refuses, but for its network."""
    if request["FileSystemType"] != "LUSTRE":
        raise bad_request(
            f"The local cloud has no file systems of type {request['FileSystemType']}, only LUSTRE"
        )
    for field in OTHER_KINDS:
        if request.get(field):
            raise bad_request(f"{field} cannot be applied to create a LUSTRE file system")
    configuration = request.get("LustreConfiguration") or {}
    for field in MISSING:
        if configuration.get(field):
            raise bad_request(
                f"The local cloud's Lustre file systems have no {field}: "
                "see local_cloud/README.md, 'File systems'"
            )
    deployment, storage = deployment_type(request), request.get("StorageType") or "SSD"
    check_storage_type(configuration, deployment, storage)
    check_throughput(configuration, deployment, storage)
    check_capacity(request, deployment, storage)
    check_version(request, deployment)
    if deployment in SCRATCH:
        refuse_on_scratch(request, configuration, deployment)


def deployment_type(request: dict[str, Any]) -> str:
    configuration = request.get("LustreConfiguration") or {}
    return str(configuration.get("DeploymentType") or "SCRATCH_1")


def check_storage_type(configuration: dict[str, Any], deployment: str, storage: str) -> None:
    if storage == "INTELLIGENT_TIERING":
        raise bad_request("The local cloud has no INTELLIGENT_TIERING: use StorageType SSD")
    if storage == "HDD" and deployment != "PERSISTENT_1":
        raise bad_request(f"StorageType HDD is for PERSISTENT_1 only, not for {deployment}")
    if (storage == "HDD") != bool(configuration.get("DriveCacheType")):
        raise bad_request("DriveCacheType is required for StorageType HDD, and only there")


def check_throughput(configuration: dict[str, Any], deployment: str, storage: str) -> None:
    throughput = configuration.get("PerUnitStorageThroughput")
    allowed = THROUGHPUTS.get((deployment, storage))
    if allowed is None:
        if throughput is not None:
            raise bad_request(
                f"PerUnitStorageThroughput is not supported for deployment type {deployment}, "
                f"and was {throughput}: leave it out"
            )
    elif throughput is None:
        raise bad_request(
            f"PerUnitStorageThroughput must be provided for deployment type {deployment}: "
            f"one of {listed(allowed)}"
        )
    elif throughput not in allowed:
        raise RefusedError(
            "InvalidPerUnitStorageThroughput",
            f"PerUnitStorageThroughput of {deployment} {storage} must be one of {listed(allowed)}, "
            f"not {throughput}",
        )


def check_capacity(request: dict[str, Any], deployment: str, storage: str) -> None:
    capacity = request.get("StorageCapacity")
    if capacity is None:
        raise bad_request("StorageCapacity must be provided for a LUSTRE file system")
    if storage == "HDD":
        step = HDD_STEPS_GIB[request["LustreConfiguration"]["PerUnitStorageThroughput"]]
        small: tuple[int, ...] = ()
    else:
        step = OLD_STEP_GIB if deployment == "SCRATCH_1" else STEP_GIB
        small = SMALL_CAPACITIES
    if capacity not in small and (capacity <= 0 or capacity % step):
        raise bad_request(
            f"Invalid Lustre storage capacity: {capacity}. For {deployment} {storage} it must be "
            f"{''.join(f'{size}, ' for size in small)}or a multiple of {step} GiB"
        )


def version(request: dict[str, Any]) -> str:
    """The Lustre version that is asked for, or AWS's default."""
    asked = request.get("FileSystemTypeVersion")
    if asked is not None or deployment_type(request) != "PERSISTENT_2":
        return str(asked or "2.10")
    metadata = request["LustreConfiguration"].get("MetadataConfiguration")
    return "2.15" if metadata else "2.12"


def check_version(request: dict[str, Any], deployment: str) -> None:
    wanted = version(request)
    if wanted not in VERSIONS:
        raise bad_request(f"FileSystemTypeVersion must be one of {listed(VERSIONS)}, not {wanted}")
    metadata = (request.get("LustreConfiguration") or {}).get("MetadataConfiguration")
    if deployment == "PERSISTENT_2" and wanted == "2.10":
        raise bad_request("FileSystemTypeVersion 2.10 is not supported for PERSISTENT_2")
    if metadata and (deployment, wanted) != ("PERSISTENT_2", "2.15"):
        raise bad_request("MetadataConfiguration is for PERSISTENT_2 with version 2.15 only")


def refuse_on_scratch(
    request: dict[str, Any], configuration: dict[str, Any], deployment: str
) -> None:
    if request.get("KmsKeyId"):
        raise bad_request(f"KmsKeyId is not supported for deployment type {deployment}")
    for field in (
        "AutomaticBackupRetentionDays",
        "DailyAutomaticBackupStartTime",
        "CopyTagsToBackups",
    ):
        if configuration.get(field):
            raise bad_request(f"{field} is not supported for deployment type {deployment}")


def listed(values: tuple[object, ...]) -> str:
    return ", ".join(map(str, values))
