"""Finds the file system that a booting host mounts.

The host's user data names an SSM parameter that holds the file system's id.
"""

from __future__ import annotations

import base64
import binascii
import email
import re
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from moto.ec2.exceptions import EC2ClientError
from moto.ec2.models import ec2_backends
from moto.fsx.models import fsx_backends
from moto.ssm.models import ssm_backends
from moto.utilities.arns import parse_arn

if TYPE_CHECKING:
    from moto.batch.models import ComputeEnvironment

    from local_cloud.file_systems.models import FileSystemsBackend

MOUNT_POINT = "/fsx"
NOTHING = "none"  # a parameter's value if there is no file system
# Matched in a shell script; user data is not executed.
NAMED = re.compile(r'^\s*(?:export\s+|readonly\s+)?FILE_SYSTEM_PARAMETER="([^"]+)"', re.MULTILINE)


class HostError(Exception):
    """Raised when a host fails to boot because it can't mount what its user data requires."""


def mount(environment: ComputeEnvironment) -> Path | None:
    """Return the folder behind MOUNT_POINT on an environment's hosts, or None if there is none.

    Raises:
        HostError: the launch template, the parameter or the file system is missing, or the file
            system is not AVAILABLE.
    """
    file_system_id = mounted_file_system(environment)
    return None if file_system_id is None else backend_of(environment).folders.path(file_system_id)


def mounted_file_system(environment: ComputeEnvironment) -> str | None:
    """Return the id of an environment's file system, or None if its hosts mount none.

    Raises:
        HostError: as in `mount`.
    """
    parameter = next(parameters(environment), None)
    if parameter is None:
        return None
    place = parse_arn(environment.arn)
    found = ssm_backends[place.account][place.region].get_parameter(parameter)
    if found is None:
        raise HostError(
            f"the SSM parameter {parameter}, which the user data refers to, does not exist"
        )
    if found.value == NOTHING:
        return None
    backend = backend_of(environment)
    with backend.lock:
        backend.settle()
        file_system = backend.file_systems.get(found.value)
    state = "missing" if file_system is None else file_system.lifecycle
    if state != "AVAILABLE":
        raise HostError(
            f"the file system {found.value} specified in the SSM parameter {parameter} is {state}"
        )
    return str(found.value)


def backend_of(environment: ComputeEnvironment) -> FileSystemsBackend:
    place = parse_arn(environment.arn)
    backend: FileSystemsBackend
    backend = fsx_backends[place.account][place.region]  # type: ignore[assignment]
    return backend


def parameters(environment: ComputeEnvironment) -> Iterator[str]:
    """Yield the names of the parameters used by the scripts in the hosts' user data."""
    template = environment.compute_resources.get("launchTemplate")
    if not template:
        return
    place = parse_arn(environment.arn)
    ec2 = ec2_backends[place.account][place.region]
    try:
        found = (
            ec2.get_launch_template(template["launchTemplateId"])
            if template.get("launchTemplateId")
            else ec2.get_launch_template_by_name(template["launchTemplateName"])
        )
        data = found.get_version(template.get("version") or "$Default").data
    except EC2ClientError as error:
        raise HostError(f"launch template {template} does not exist") from error
    yield from named_in(str(data.get("UserData") or ""))


@lru_cache(maxsize=64)
def named_in(user_data: str) -> tuple[str, ...]:
    """Return the parameters named in user data, a base64-encoded script or MIME message."""
    try:
        text = base64.b64decode(user_data, validate=True)
    except (binascii.Error, ValueError):
        return ()
    message = email.message_from_bytes(text)
    if not message.is_multipart():
        return tuple(NAMED.findall(text.decode(errors="replace")))
    bodies = (part.get_payload(decode=True) for part in message.walk() if not part.is_multipart())
    scripts = (body.decode(errors="replace") for body in bodies if isinstance(body, bytes))
    return tuple(name for script in scripts for name in NAMED.findall(script))
