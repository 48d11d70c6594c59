"""Creates and deletes one run's file system, step by step.

Each step checks the current state, so it can be repeated, or continued by another process.
Creation finds its file system by an idempotency token, which is the same for all tries until the
task is cleared. Deletion finds all file systems that have the run's tags.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from hashlib import sha256
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from batchmark.aws import file_systems
from batchmark.aws.batch_jobs import is_passing
from batchmark.core.clusters.multi_node import NO_FILE_SYSTEM, FileSystem
from batchmark.core.errors import LayerError, PlanError
from batchmark.core.names import (
    DAG_TAG,
    GENERATION_TAG,
    INSTALLATION_TAG,
    RUN_ID_TAG,
    RUN_TAG,
    slug,
)
from batchmark.core.record import Record

TOKEN_CHARACTERS = 40  # of FSx's 63
UP = "AVAILABLE"
ON_THE_WAY = ("CREATING", "UPDATING")
LOOKS_FOR_IMPORT = 6  # FSx does not say how soon it lists the import of a link that is there
UNDER_WAY = ("PENDING", "EXECUTING", "CANCELING")
# Of what Airflow allows in a run id, FSx's tags take all but "~".
NOT_IN_TAGS = re.compile(r"[^\w .:/=+@-]")


def check_tags(run_id: str) -> None:
    """Reject a run id that AWS does not allow in tags, which are used to find the run's resources.

    Raises:
        PlanError: the id has an invalid character.
    """
    if found := NOT_IN_TAGS.search(run_id):
        raise PlanError(
            f"run id {run_id!r} contains {found[0]!r}, which AWS does not allow in tags, so there "
            "would be no way to find the run's jobs or file system later: choose another run id"
        )


class RunOfDag(Record):
    """The run that a file system belongs to; `generation` counts how often its task was cleared."""

    installation: str
    dag_id: str
    run_id: str
    generation: int

    @property
    def tags(self) -> dict[str, str]:
        return {
            "Project": self.installation,  # as Terraform's budget counts what is spent
            INSTALLATION_TAG: self.installation,
            RUN_TAG: slug(self.run_id),
            RUN_ID_TAG: self.run_id,
            DAG_TAG: self.dag_id,
            GENERATION_TAG: str(self.generation),
        }

    @property
    def token(self) -> str:
        return _token(self.installation, self.dag_id, self.run_id, str(self.generation))

    def link_token(self, file_system_id: str) -> str:
        """Return a link's token, unique to its file system: FSx remembers links of deleted ones."""
        return _token(self.token, file_system_id)

    def owns(self, described: file_systems.Described) -> bool:
        """Whether a file system belongs to this run, in any generation."""
        return self._has_tags(described, RUN_ID_TAG, DAG_TAG)

    def made(self, described: file_systems.Described) -> bool:
        """Whether a file system belongs to this run and generation."""
        return self._has_tags(described, RUN_ID_TAG, DAG_TAG, GENERATION_TAG)

    def _has_tags(self, described: file_systems.Described, *names: str) -> bool:
        tags = file_systems.tags_of(described)
        return all(tags.get(name) == self.tags[name] for name in names)


def _token(*parts: str) -> str:
    digest = sha256("\n".join(parts).encode()).hexdigest()
    return f"batchmark-{digest[:TOKEN_CHARACTERS]}"


@contextmanager
def _refusals_named() -> Iterator[None]:
    """Raise LayerError if AWS permanently refuses a request made within the context."""
    try:
        yield
    except ClientError as error:
        if is_passing(error):
            raise
        raise LayerError(
            f"AWS rejected the file system: {error}. Its settings come from "
            "terraform/stacks/multi_node"
        ) from error


class RunFileSystem:
    """Creates and deletes a run's file system, the latter even if its `settings` are unknown."""

    def __init__(self, fsx: Any, ssm: Any, settings: FileSystem | None, run: RunOfDag) -> None:
        self._fsx, self._ssm = fsx, ssm
        self._settings, self._run = settings, run
        self.file_system_id: str | None = None
        # Last descriptions by id: what stand_up created, and what the deletion found besides.
        self.found: dict[str, file_systems.Described] = {}
        self.gone: set[str] = set()  # those of them that were seen to be gone
        self.parameter_problem: str | None = None
        self._looks_for_import = 0

    @_refusals_named()
    def stand_up(self) -> str | None:
        """Do the next creation step; return what it's waiting for, or None once files are readable.

        Raises:
            LayerError: the file system can't be created. What exists so far is not deleted.
            ClientError, BotoCoreError: an AWS request failed temporarily.
        """
        described = self._own()
        if described is None:
            return "The file system of an earlier attempt is being deleted"
        file_system_id = described["FileSystemId"]
        if described["Lifecycle"] in ON_THE_WAY:
            return f"File system {file_system_id} is {described['Lifecycle']}"
        if described["Lifecycle"] != UP:
            raise LayerError(
                f"file system {file_system_id} is {described['Lifecycle']}: "
                f"{file_systems.why_failed(described)}"
            )
        return self._linked(file_system_id) or self._imported(file_system_id)

    @_refusals_named()
    def name_own(self) -> None:
        """Make newly booted nodes mount the file system.

        Raises:
            LayerError, ClientError, BotoCoreError: as in `stand_up`.
        """
        if self.file_system_id is None:
            raise LayerError("there is no file system for nodes to mount")
        self._name(self.file_system_id)

    def name_none(self) -> None:
        """Make newly booted nodes mount no file system."""
        self._name(NO_FILE_SYSTEM)

    def _linked(self, file_system_id: str) -> str | None:
        repository = self.settings.repository
        link = file_systems.link_of(self._fsx, file_system_id)
        if link is None:
            file_systems.link(
                self._fsx,
                self.settings,
                file_system_id,
                token=self._run.link_token(file_system_id),
                tags=self._run.tags,
            )
        if link is None or link["Lifecycle"] in ON_THE_WAY:
            return f"{repository} is being linked to {file_system_id}"
        if link["Lifecycle"] != UP:
            raise LayerError(
                f"the link from {file_system_id} to {repository} is "
                f"{link['Lifecycle']}: {file_systems.why_failed(link)}"
            )
        return None

    def _imported(self, file_system_id: str) -> str | None:
        """Return what the import is doing, or None once it has ended.

        Until then, FSx can't delete the file system.
        """
        tasks = file_systems.tasks_of(self._fsx, file_system_id)
        if not tasks and self._looks_for_import < LOOKS_FOR_IMPORT:
            self._looks_for_import += 1
            return f"The import of file names from {self.settings.repository} has not started"
        for task in tasks:
            if task["Lifecycle"] in UNDER_WAY:
                return f"The file names in {self.settings.repository} are being imported"
            if task["Lifecycle"] == "FAILED":
                raise LayerError(
                    f"the file names in {self.settings.repository} could not be imported into "
                    f"{file_system_id}: {file_systems.why_failed(task)}"
                )
        return None

    def _own(self) -> file_systems.Described | None:
        """Find or create this generation's file system; None while an old one is being deleted."""
        if self.file_system_id is None:
            described = file_systems.create(
                self._fsx, self.settings, token=self._run.token, tags=self._run.tags
            )
            if described["Lifecycle"] == "DELETING":
                return None
            self.file_system_id = described["FileSystemId"]
            self.found[self.file_system_id] = described
            return described
        found = file_systems.describe(self._fsx, self.file_system_id)
        if found is None:
            raise LayerError(f"file system {self.file_system_id} was deleted by someone else")
        return found

    @property
    def settings(self) -> FileSystem:
        if self._settings is None:
            raise LayerError("the settings of the run's file system are unknown")
        return self._settings

    def remove(self) -> str | None:
        """Do as `collapse` does, but only for this generation: jobs of another might be running."""
        return self._end_all(self._run.made)

    def collapse(self) -> str | None:
        """Do the next deletion step; return what it's waiting for, or None once all are deleted.

        Nodes that boot from now on mount none. If the parameter that they read can't be changed,
        the file systems are deleted anyway, and `parameter_problem` says why.

        Raises:
            ClientError, BotoCoreError: an AWS request failed.
        """
        return self._end_all(self._run.owns)

    def withdraw(self) -> bool:
        """Stop new nodes from mounting the run's file systems; return whether there are any."""
        return self._withdraw(self._run.owns)

    def _end_all(self, whose: Callable[[file_systems.Described], bool]) -> str | None:
        self._withdraw(whose)
        left = []
        for file_system_id in self.found.keys() - self.gone:
            described = file_systems.describe(self._fsx, file_system_id)
            if described is None:
                self.gone.add(file_system_id)
                continue
            self.found[file_system_id] = described
            left.append(self._end(described))
        return "; ".join(left) or None

    def _withdraw(self, whose: Callable[[file_systems.Described], bool]) -> bool:
        for described in file_systems.of_installation(self._fsx, self._run.installation):
            if whose(described):
                self.found.setdefault(described["FileSystemId"], described)
        self.parameter_problem = None
        if self.found:
            try:
                named = file_systems.parameter(self._ssm, self.settings.id_parameter)
                if named.value in self.found:
                    self.name_none()
            except (LayerError, BotoCoreError, ClientError) as error:
                self.parameter_problem = (
                    f"The parameter that nodes read could not be set to {NO_FILE_SYSTEM!r}: {error}"
                )
        return bool(self.found.keys() - self.gone)

    def _name(self, file_system_id: str) -> None:
        file_systems.set_parameter(self._ssm, self.settings.id_parameter, file_system_id)

    def _end(self, described: file_systems.Described) -> str:
        file_system_id = described["FileSystemId"]
        if described["Lifecycle"] != "DELETING":
            try:
                file_systems.delete(self._fsx, file_system_id)
            except ClientError as error:
                if is_passing(error):
                    raise
                # Such as one that is still being created: the next step tries again.
                return f"File system {file_system_id} can't be deleted yet: {error}"
        return f"File system {file_system_id} is being deleted"

    @property
    def is_ending(self) -> bool:
        """Whether FSx reports that all remaining file systems are being deleted."""
        left = (self.found[file_system_id] for file_system_id in self.found.keys() - self.gone)
        return all(described["Lifecycle"] == "DELETING" for described in left)
