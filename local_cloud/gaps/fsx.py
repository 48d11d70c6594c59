"""FSx: file systems with a life cycle, in place of moto's, which are there at once."""

from __future__ import annotations

from moto.fsx.models import fsx_backends

from local_cloud.file_systems.models import FileSystemsBackend


def fill() -> None:
    fsx_backends.backend = FileSystemsBackend
