"""Watches a Kubernetes job's pods until they end, and explains why any aren't starting."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

from kubernetes.client.exceptions import ApiException
from urllib3.exceptions import HTTPError

from batchmark.checks.waiting_pods import Object, explain, failures, missing, waiting
from batchmark.core.clusters.cluster import GPU
from batchmark.core.output import in_lines
from batchmark.orchestration.pods.cluster_api import LOG_TAIL_LINES, POLL_SECONDS, ClusterApi
from batchmark.orchestration.telling import tell

# After its own limit a job must have ended.
SPARE_SECONDS = 60
UNREADABLE_SECONDS = 120
LONGEST_LOG_LINES = 20_000


class PodsWatch:
    """Watches one Kubernetes job.

    Args:
        pending_seconds: limit for a pod's wait for a node or for missing resources.
        starting_seconds: limit for a container's start, including the image pull.
        share: function that enables sharing, called when pods are waiting for GPUs held by the
        job's other pods; or None.
    """

    def __init__(
        self,
        api: ClusterApi,
        job_name: str,
        *,
        pending_seconds: float,
        starting_seconds: float,
        share: Callable[[], None] | None = None,
    ) -> None:
        self.api = api
        self.job_name = job_name
        self.pending_seconds = pending_seconds
        self.starting_seconds = starting_seconds
        self.share = share
        self.job: Object = {}
        self.pods: Sequence[Object] = ()
        self._first_seen: dict[tuple[str, str], float] = {}
        self._told: set[str] = set()

    def run(self) -> str | None:
        """Wait until the job ends or must be stopped; return why it failed, or None on success."""
        until = self.api.clock() + self.api.cluster.timeout_seconds + SPARE_SECONDS
        read_at = self.api.clock()
        while self.api.clock() < until:
            try:
                self.job, self.pods = self.api.job(self.job_name), self.api.pods(self.job_name)
            except (ApiException, HTTPError) as error:
                if isinstance(error, ApiException) and error.status == 404:
                    return f"Kubernetes job {self.job_name} was deleted while it was running"
                if self.api.clock() - read_at > UNREADABLE_SECONDS:
                    raise
                tell(f"The cluster did not respond: {error}. Retrying.")
            else:
                read_at = self.api.clock()
                self._tell_counts()
                if condition := self._ended():
                    return None if condition["type"] == "Complete" else self._failure(condition)
                if problem := self._stuck():
                    return f"Kubernetes job {self.job_name} was stopped. {problem}"
            self.api.sleep(POLL_SECONDS)
        return f"Kubernetes job {self.job_name} did not finish within its timeout"

    def log(self) -> str:
        """Return the log from the first replica, which collects all measurements."""
        return self.api.log(self.pods[0], LONGEST_LOG_LINES) if self.pods else ""

    def started_at(self) -> datetime | None:
        """Return when the first pod started, or None if none has."""
        begun = [
            since
            for pod in self.pods
            for container in pod["status"].get("containerStatuses", ())
            for state in container.get("state", {}).values()
            if (since := (state or {}).get("startedAt"))
        ]
        return min(map(datetime.fromisoformat, begun), default=None)

    def node(self) -> str | None:
        return next((name for pod in self.pods if (name := pod["spec"].get("nodeName"))), None)

    def _ended(self) -> dict[str, Any] | None:
        for condition in self.job.get("status", {}).get("conditions", ()):
            if condition["type"] in {"Complete", "Failed"} and condition["status"] == "True":
                return dict(condition)
        return None

    def _failure(self, condition: dict[str, Any]) -> str:
        lines = [
            f"Kubernetes job {self.job_name} failed: {condition.get('reason')}, "
            f"{condition.get('message')}",
            *failures(self.pods),
        ]
        failed = next((pod for pod in self.pods if pod["status"].get("phase") == "Failed"), None)
        if failed and failed["status"].get("containerStatuses"):
            lines += [f"Last lines of {failed['metadata']['name']}:"]
            lines += self.api.log(failed, LOG_TAIL_LINES).expandtabs().splitlines()
        return in_lines(lines)

    def _stuck(self) -> str | None:
        """Return why pods waited too long, or None; enable sharing instead if that might help."""
        now, found = self.api.clock(), waiting(self.pods)
        if unmade := missing(self.job, self.pods):
            found.append(unmade)
        self._first_seen = {
            (one.name, one.reason): self._first_seen.get((one.name, one.reason), now)
            for one in found
        }
        late = [
            one
            for one in found
            if now - self._first_seen[one.name, one.reason]
            >= (self.starting_seconds if one.is_starting else self.pending_seconds)
        ]
        if not late:
            return None
        text = explain(
            self.api.cluster, late, self.pods, self.api.nodes(), self.api.events(self.job_name)
        )
        all_lack_gpus = all(f"Insufficient {GPU}" in one.message for one in late)
        if self.share and all_lack_gpus and self._is_at_work():
            tell(text)
            self.share()
            self.share = None
            self._first_seen.clear()
            return None
        return text

    def _is_at_work(self) -> bool:
        """Return whether any pod has a node, and so a GPU, even if it's still pulling its image."""
        return any(
            pod["spec"].get("nodeName") and pod["status"].get("phase") in {"Pending", "Running"}
            for pod in self.pods
        )

    def _tell_counts(self) -> None:
        """Log how many pods are in each phase, unless the same counts have been logged before."""
        phases = Counter(pod["status"].get("phase", "Unknown") for pod in self.pods)
        listed = ", ".join(f"{number} {phase}" for phase, number in sorted(phases.items()))
        text = f"Pods of {self.job_name}: {listed or 'none yet'}"
        if text not in self._told:
            self._told.add(text)
            tell(text)
