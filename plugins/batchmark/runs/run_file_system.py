"""The file system of one run: stood up step by step, and collapsed.

Each step looks at what is there, so a step may be repeated, and another process may go on. Standing
up finds its file system by the token that it was created with, which is the same for all tries and
another once the task was cleared. Collapsing finds all that carry the run's tags.
"""

from __future__ import annotations

from hashlib import sha256
from typing import Any

from botocore.exceptions import ClientError

from batchmark.aws import file_systems
from batchmark.aws.batch_jobs import is_passing
from batchmark.core.errors import LayerError
from batchmark.core.multi_node import NO_FILE_SYSTEM, FileSystem
from batchmark.core.names import DAG_TAG, INSTALLATION_TAG, RUN_ID_TAG, RUN_TAG, slug
from batchmark.core.record import Record

TOKEN_CHARACTERS = 40  # of FSx's 63
UP = "AVAILABLE"
ON_THE_WAY = ("CREATING", "UPDATING")


class RunOfDag(Record):
    """Whose file system it is."""

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
        }

    @property
    def token(self) -> str:
        text = "\n".join((self.installation, self.dag_id, self.run_id, str(self.generation)))
        return f"batchmark-{sha256(text.encode()).hexdigest()[:TOKEN_CHARACTERS]}"

    def owns(self, described: file_systems.Described) -> bool:
        """Whether a file system is this run's, of any generation."""
        tags = file_systems.tags_of(described)
        return all(tags.get(name) == self.tags[name] for name in (RUN_ID_TAG, DAG_TAG))


class RunFileSystem:
    def __init__(self, fsx: Any, ssm: Any, settings: FileSystem, run: RunOfDag) -> None:
        self._fsx, self._ssm = fsx, ssm
        self._settings, self._run = settings, run
        self.file_system_id: str | None = None
        # By id, as last seen: what stand_up made, and what collapse found beside it.
        self.found: dict[str, file_systems.Described] = {}

    def stand_up(self) -> str | None:
        """Do the next step; None once nodes can mount it, else what it waits for.

        Raises:
            LayerError: it can't come up. What was made so far is still there.
            ClientError, BotoCoreError: AWS gives no answer now.
        """
        try:
            return self._next_step()
        except ClientError as error:
            if is_passing(error):
                raise
            raise LayerError(
                f"AWS refuses the file system: {error}. Its settings are those of "
                "terraform/stacks/multi_node"
            ) from error

    def _next_step(self) -> str | None:
        described = self._own()
        if described is None:
            return "An earlier try's file system is being deleted"
        file_system_id = described["FileSystemId"]
        if described["Lifecycle"] in ON_THE_WAY:
            return f"File system {file_system_id} is {described['Lifecycle']}"
        if described["Lifecycle"] != UP:
            raise LayerError(
                f"file system {file_system_id} is {described['Lifecycle']}: "
                f"{file_systems.why_failed(described)}"
            )
        link = file_systems.link_of(self._fsx, file_system_id)
        if link is None:
            file_systems.link(
                self._fsx,
                self._settings,
                file_system_id,
                token=self._run.token,
                tags=self._run.tags,
            )
            return f"{self._settings.repository} is being linked to {file_system_id}"
        if link["Lifecycle"] in ON_THE_WAY:
            return f"{self._settings.repository} is being linked to {file_system_id}"
        if link["Lifecycle"] != UP:
            raise LayerError(
                f"the link of {file_system_id} to {self._settings.repository} is "
                f"{link['Lifecycle']}: {file_systems.why_failed(link)}"
            )
        file_systems.set_parameter(self._ssm, self._settings.id_parameter, file_system_id)
        return None

    def _own(self) -> file_systems.Described | None:
        """This generation's file system; None while an earlier one with its token ends."""
        if self.file_system_id is None:
            described = file_systems.create(
                self._fsx, self._settings, token=self._run.token, tags=self._run.tags
            )
            if described["Lifecycle"] == "DELETING":
                return None
            self.file_system_id = described["FileSystemId"]
            self.found[self.file_system_id] = described
            return described
        found = file_systems.describe(self._fsx, self.file_system_id)
        if found is None:
            raise LayerError(f"file system {self.file_system_id} is gone: somebody deleted it")
        return found

    def collapse(self) -> str | None:
        """Do the next step; None once all of the run's file systems are gone.

        Nodes that boot from now on mount none.

        Raises:
            ClientError, BotoCoreError: AWS gives no answer now.
        """
        self.withdraw()
        left = []
        for file_system_id in self.found:
            described = file_systems.describe(self._fsx, file_system_id)
            if described is None:
                continue
            self.found[file_system_id] = described
            left.append(self._end(described))
        return "; ".join(left) or None

    def withdraw(self) -> bool:
        """Let nodes that boot from now on mount none of it; whether there is any."""
        self._look()
        named = file_systems.parameter(self._ssm, self._settings.id_parameter)
        if named.value in self.found:
            file_systems.set_parameter(self._ssm, self._settings.id_parameter, NO_FILE_SYSTEM)
        return bool(self.found)

    def _look(self) -> None:
        for described in file_systems.of_installation(self._fsx, self._run.installation):
            if self._run.owns(described):
                self.found.setdefault(described["FileSystemId"], described)

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
        """Whether FSx has said of all that it deletes them."""
        return all(described["Lifecycle"] == "DELETING" for described in self.found.values())

    def name_none(self) -> None:
        """Let nodes that boot from now on mount nothing."""
        file_systems.set_parameter(self._ssm, self._settings.id_parameter, NO_FILE_SYSTEM)
