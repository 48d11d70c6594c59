"""Runs jobs as containers on a Docker engine."""

from __future__ import annotations

from collections.abc import Collection
from contextlib import suppress
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Any

import docker
from docker.errors import APIError, ImageNotFound, NotFound

from local_cloud.batch.jobs import host_access
from local_cloud.batch.running import environment_variables
from local_cloud.batch.running.container_output import ENGINE_ERRORS, message_of, milliseconds
from local_cloud.batch.running.docker_container import DockerContainer
from local_cloud.batch.running.docker_options import create_options
from local_cloud.batch.running.runtime import Launch, RuntimeUnavailableError, StartError
from local_cloud.settings import Settings

# The ECS agent's timeout for calls to its engine; a pull, which is a stream, may take longer.
ENGINE_SECONDS = 240
OWNER, JOB, TASK = "local-cloud.owner", "local-cloud.job", "local-cloud.task"
PULL_STARTED, PULL_STOPPED = "local-cloud.pull-started-at", "local-cloud.pull-stopped-at"


class DockerRuntime:
    """Starts each node as a container and labels it with the local cloud that owns it.

    Raises:
        RuntimeUnavailableError: no engine responds, or the network does not exist.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._network = settings.job_network
        # Survives a restart, and differs between local clouds on one engine.
        self._owner = f"{settings.job_endpoint_url} on {settings.job_network or 'the host'}"
        self._closed = False
        try:
            self._client = docker.from_env(timeout=ENGINE_SECONDS)
            self._has_gpus = "nvidia" in self._client.info().get("Runtimes", {})
            if self._network is not None:
                self._client.networks.get(self._network)
        except NotFound as error:
            raise RuntimeUnavailableError(
                f"the Docker engine has no network named {self._network!r}: create it or choose "
                "another"
            ) from error
        except ENGINE_ERRORS as error:
            raise RuntimeUnavailableError(
                f"--jobs containers requires a Docker engine, but none is responding ({error}): "
                "start one, set DOCKER_HOST, or run jobs as processes"
            ) from error

    @property
    def shares_network(self) -> bool:
        return self._network is None

    def start(self, launch: Launch) -> DockerContainer:
        properties = launch.container.properties
        if self._settings.refuses_host_access and (refusal := host_access.refusal(properties)):
            raise StartError("CannotCreateContainerError", refusal)
        pull = self._pull_if_missing(properties.get("image") or "")
        self._record_image(launch, pull)
        container = DockerContainer(self._create(launch, pull), launch.log_stream, self._network)
        if self._closed:
            container.remove()
            raise StartError("CannotStartContainerError", "the local cloud is being stopped")
        try:
            container.start()
        except ENGINE_ERRORS as error:
            container.remove()
            raise StartError("CannotStartContainerError", message_of(error)) from error
        return container

    def _pull_if_missing(self, image: str) -> dict[str, str]:
        """Pull the image unless the engine has it; return labels with the pull's timestamps."""
        try:
            with suppress(ImageNotFound):
                self._client.images.get(image)
                return {}
            started = datetime.now(UTC).isoformat()
            repository, tag = docker.utils.parse_repository_tag(image)
            progress = self._client.api.pull(
                repository, tag=tag or "latest", stream=True, decode=True
            )
            problem = next((step["error"] for step in progress if "error" in step), None)
        except ENGINE_ERRORS as error:
            raise StartError("CannotPullContainerError", message_of(error)) from error
        if problem is not None:
            raise StartError("CannotPullContainerError", f"Error response from daemon: {problem}")
        return {PULL_STARTED: started, PULL_STOPPED: datetime.now(UTC).isoformat()}

    def _record_image(self, launch: Launch, pull: dict[str, str]) -> None:
        """Record what ECS reports about the image: its digest, and when it was pulled."""
        record, times = launch.record, {name: milliseconds(time) for name, time in pull.items()}
        record.pull_started_at = times.get(PULL_STARTED)
        record.pull_stopped_at = times.get(PULL_STOPPED)
        with suppress(*ENGINE_ERRORS):  # creating the container will fail without it
            image = self._client.images.get(launch.container.properties["image"]).attrs
            # An image that was never in a registry has only an id.
            digests = image.get("RepoDigests") or [image["Id"]]
            record.image_digest = digests[0].rpartition("@")[2]

    def _create(self, launch: Launch, labels: dict[str, str]) -> Any:
        task_id = launch.record.task_id
        definition = launch.job.submission.definition
        basis = {
            **environment_variables.aws(launch, self._settings),
            **environment_variables.task_metadata(launch, self._settings),
            "AWS_EXECUTION_ENV": "AWS_ECS_EC2",
        }
        network = {"network": self._network} if self._network else {"network_mode": "host"}
        try:
            return self._create_anew(
                task_id,
                image=launch.container.properties["image"],
                name=f"ecs-{definition.name}-{definition.revision}-default-{task_id}",
                environment=environment_variables.for_node(launch, basis),
                labels={**labels, OWNER: self._owner, JOB: launch.job.id, TASK: task_id},
                **create_options(
                    launch.container,
                    launch.gpu_ids,
                    engine_has_gpus=self._has_gpus,
                    file_system=launch.file_system,
                ),
                **network,
            )
        except (*ENGINE_ERRORS, ValueError) as error:
            raise StartError("CannotCreateContainerError", message_of(error)) from error

    def _create_anew(self, task_id: str, **options: Any) -> Any:
        """Create a task's container, if necessary replacing one that was never started.

        A busy engine may create a killed server's container only after the next server has looked
        for containers.
        """
        try:
            return self._client.containers.create(**options)
        except APIError as error:
            if error.status_code != HTTPStatus.CONFLICT:
                raise
        for container in self._mine(f"{TASK}={task_id}"):
            self._remove(container)
        return self._client.containers.create(**options)

    def adopt(self, launch: Launch) -> DockerContainer | None:
        """Return an earlier server's container, or None; remove one that was never started."""
        found = self._mine(f"{TASK}={launch.record.task_id}")
        if not found:
            return None
        container = DockerContainer(found[0], launch.log_stream, self._network)
        if found[0].status == "created":
            container.remove()
            return None
        container.adopt()
        return container

    def remove_others(self, task_ids: Collection[str]) -> None:
        try:
            for container in self._mine():
                if container.labels[TASK] not in task_ids:
                    self._remove(container)
        except ENGINE_ERRORS as error:
            raise RuntimeUnavailableError(
                f"could not remove job containers: {message_of(error)}"
            ) from error

    def inspect(self, task_id: str) -> dict[str, Any] | None:
        found = self._mine(f"{TASK}={task_id}")
        attributes: dict[str, Any] | None = found[0].attrs if found else None
        return attributes

    def close(self) -> None:
        self._closed = True
        self.remove_others(())

    def _mine(self, *labels: str) -> list[Any]:
        wanted = {"label": [f"{OWNER}={self._owner}", *labels]}
        found: list[Any] = self._client.containers.list(
            all=True, filters=wanted, ignore_removed=True
        )
        return found

    def _remove(self, container: Any) -> None:
        try:
            container.remove(force=True, v=True)
        except APIError as error:
            if error.status_code not in (404, 409):  # removed, or being removed
                raise
