"""Replaces mounted host folders for jobs that run as processes, which can't mount anything."""

from __future__ import annotations

import posixpath
import shutil
import tempfile
from functools import cached_property
from pathlib import Path

from local_cloud.batch.jobs.volumes import in_file_system, mounts
from local_cloud.batch.running.runtime import Launch


class HostFolders:
    """Local folders that stand in for each instance's folders.

    All single-node jobs of a compute environment share one instance; each node of a multi-node job
    has its own.
    """

    @cached_property
    def _root(self) -> Path:
        return Path(tempfile.mkdtemp(prefix="local-cloud-hosts-"))

    def in_variables(self, launch: Launch) -> dict[str, str]:
        """Return the variables that hold a path in a mount point, changed to one in a local folder.

        Raises:
            ValueError: a mount is not supported.
        """
        found = {}
        for mount in mounts(launch.container.properties):
            if mount.source is None:
                continue
            folder = self._folder(launch, mount.source)
            for name, value in launch.container.environment.items():
                if f"{value}/".startswith(f"{mount.path.rstrip('/')}/"):
                    found[name] = str(folder / value[len(mount.path) :].lstrip("/"))
        return found

    def _folder(self, launch: Launch, source: str) -> Path:
        """Return the local folder for a host folder, creating it if missing, as Docker does."""
        folder = in_file_system(source, launch.file_system)
        if folder is None:
            folder = self._root / instance_of(launch) / posixpath.normpath(f"/{source}").lstrip("/")
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def remove(self) -> None:
        if "_root" in vars(self):
            shutil.rmtree(self._root, ignore_errors=True)


def instance_of(launch: Launch) -> str:
    """Return a name for the instance that a node runs on."""
    environment = launch.job.attempts[-1].compute_environment
    return f"{environment}#{launch.node}" if launch.job.submission.is_multi_node else environment
