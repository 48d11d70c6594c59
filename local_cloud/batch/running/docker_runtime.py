"""Jobs as containers of a Docker engine."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import docker
from docker.errors import APIError, DockerException, ImageNotFound, NotFound
from requests.exceptions import RequestException

from local_cloud.batch import environment
from local_cloud.batch.docker_container import DockerContainer, told
from local_cloud.batch.docker_options import create_options
from local_cloud.batch.runtime import RuntimeUnavailableError, StartError

if TYPE_CHECKING:
    from collections.abc import Collection

    from local_cloud.batch.runtime import Launch
    from local_cloud.settings import Settings

# The ECS agent's patience with its engine; it grants a pull more, and so do we: it is a stream.
ENGINE_SECONDS = 240
OWNER, JOB, TASK = "local-cloud.owner", "local-cloud.job", "local-cloud.task"
PULL_STARTED, PULL_STOPPED = "local-cloud.pull-started-at", "local-cloud.pull-stopped-at"
METADATA_PATH = "/v4"


class DockerRuntime:
    """Starts each node as a container labelled with this local cloud, and removes all it left.

    Raises:
        RuntimeUnavailableError: no engine answers, or it does not have the network.
    """

    def __init__(self, settings: Settings) -> None:
        self._endpoint_url = settings.job_endpoint_url
        self._network = settings.job_network
        # The same after a restart. Two local clouds on one engine differ in it.
        self._owner = f"{settings.job_endpoint_url} on {settings.job_network or 'the host'}"
        self._closed = False
        try:
            self._client = docker.from_env(timeout=ENGINE_SECONDS)
            self._has_gpus = "nvidia" in self._client.info().get("Runtimes", {})
            if self._network is not None:
                self._client.networks.get(self._network)
        except NotFound as error:
            msg = f"the engine has no network {self._network!r}: create it, or name another"
            raise RuntimeUnavailableError(msg) from error
        except (DockerException, RequestException) as error:
            msg = (
                f"--jobs containers needs a Docker engine, and none answers ({error}): "
                "start one, set DOCKER_HOST, or run jobs as processes"
            )
            raise RuntimeUnavailableError(msg) from error

    def start(self, launch: Launch) -> DockerContainer:
        """Pull the image if it is missing, create the container and start it."""
        pull = self._pull_if_missing(launch.container.properties.get("image") or "")
        container = DockerContainer(self._create(launch, pull), launch.log_stream, self._network)
        if self._closed:
            container.remove()
            raise StartError("CannotStartContainerError", "the local cloud is being stopped")
        try:
            container.start()
        except (DockerException, RequestException) as error:
            container.remove()
            raise StartError("CannotStartContainerError", told(error)) from error
        return container

    def _pull_if_missing(self, image: str) -> dict[str, str]:
        """Labels that say when the image was pulled; none where it was there."""
        try:
            self._client.images.get(image)
        except ImageNotFound:
            started = datetime.now(UTC).isoformat()
        except (DockerException, RequestException) as error:
            raise StartError("CannotPullContainerError", told(error)) from error
        else:
            return {}
        repository, tag = docker.utils.parse_repository_tag(image)
        try:
            progress = self._client.api.pull(
                repository, tag=tag or "latest", stream=True, decode=True
            )
            problem = next((step["error"] for step in progress if "error" in step), None)
        except (DockerException, RequestException) as error:
            raise StartError("CannotPullContainerError", told(error)) from error
        if problem is not None:
            raise StartError("CannotPullContainerError", f"Error response from daemon: {problem}")
        return {PULL_STARTED: started, PULL_STOPPED: datetime.now(UTC).isoformat()}

    def _create(self, launch: Launch, labels: dict[str, str]) -> Any:
        task_id = launch.record.task_id
        definition = launch.job.submission.definition
        basis = environment.aws(launch.region, self._endpoint_url) | {
            "AWS_EXECUTION_ENV": "AWS_ECS_EC2",
            "ECS_CONTAINER_METADATA_URI_V4": f"{self._endpoint_url}{METADATA_PATH}/{task_id}",
        }
        network = {"network": self._network} if self._network else {"network_mode": "host"}
        try:
            return self._client.containers.create(
                launch.container.properties["image"],
                name=f"ecs-{definition.name}-{definition.revision}-default-{task_id}",
                environment=environment.for_node(launch, basis),
                labels={**labels, OWNER: self._owner, JOB: launch.job.id, TASK: task_id},
                **create_options(launch.container, launch.gpu_ids, engine_has_gpus=self._has_gpus),
                **network,
            )
        except (DockerException, RequestException) as error:
            raise StartError("CannotCreateContainerError", told(error)) from error
        except ValueError as error:
            raise StartError("CannotCreateContainerError", str(error)) from error

    def adopt(self, launch: Launch) -> DockerContainer | None:
        """A container that an earlier server started; one that it only created is removed."""
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
        """Remove what an earlier server left, but for the containers of these ECS tasks."""
        try:
            for container in self._mine():
                if container.labels[TASK] not in task_ids:
                    self._remove(container)
        except (DockerException, RequestException) as error:
            raise RuntimeUnavailableError(f"jobs' containers are left: {told(error)}") from error

    def inspect(self, task_id: str) -> dict[str, Any] | None:
        """The engine's description of a task's container."""
        found = self._mine(f"{TASK}={task_id}")
        attributes: dict[str, Any] | None = found[0].attrs if found else None
        return attributes

    def close(self) -> None:
        """Remove all containers of this local cloud, and start none more."""
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
            if error.status_code not in (404, 409):  # gone, or on its way
                raise
