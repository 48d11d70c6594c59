"""The result of a diagnosis: causes, remedies, and the questions that AWS answered."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Literal, Self

from pydantic import AwareDatetime, Field

from batchmark.core.output import in_lines
from batchmark.core.record import Record

Cause = Literal[
    "queue_unknown",
    "queue_disabled",
    "queue_invalid",
    "environment_disabled",
    "environment_invalid",
    "environment_not_ready",
    "service_role",
    "job_does_not_fit",
    "max_vcpus_too_small",
    "max_vcpus_reached",
    "service_quota",
    "no_spot_capacity",
    "no_capacity",
    "instance_unsupported",
    "launch_failed",
    "subnet_without_route",
    "no_container_instance",
    "agent_disconnected",
    "image_missing",
    "image_not_pulled",
    "behind_other_jobs",
    "undetermined",
]

REMEDIES: Mapping[Cause, str] = {
    "queue_unknown": "Run `terraform apply`, then resubmit any jobs that name an old queue.",
    "queue_disabled": "Enable it: `aws batch update-job-queue --job-queue QUEUE --state ENABLED`, "
    "or `terraform apply`.",
    "queue_invalid": "Fix the problem named in the status reason, then run `terraform apply`.",
    "environment_disabled": "Enable it: `aws batch update-compute-environment "
    "--compute-environment NAME --state ENABLED`, or `terraform apply`.",
    "environment_invalid": "Fix the problem in its status reason (instance profile, role, subnet, "
    "security group, launch template). Then update it, for example with `terraform apply`, so that "
    "Batch checks it again.",
    "environment_not_ready": "Wait until it is VALID. If that takes too long, check its status "
    "reason in the Batch console.",
    "service_role": "Grant Batch's service role the permission in the reason; with the "
    "service-linked role, which Terraform uses, check whether an organisation policy denies it.",
    "job_does_not_fit": "Request less in `target_overrides` (vcpus, memory_mib, gpus), or use a "
    "larger instance type. Leave at least 5 % of the memory to the ECS agent and the system.",
    "max_vcpus_too_small": "Raise `max_vcpus` (for Spot `spot_max_vcpus`) in `target_overrides`, "
    "or request fewer vcpus.",
    "max_vcpus_reached": "Wait for the running jobs, or raise `max_vcpus` in `target_overrides`.",
    "service_quota": "Request a higher quota in the Service Quotas console, or terminate other "
    "instances of these families in the region.",
    "no_spot_capacity": "Wait, add more `availability_zones`, or buy On-Demand: "
    '`purchasing = "spot_first"` or "on_demand" in `target_overrides`.',
    "no_capacity": "Wait, add more `availability_zones`, or use another instance type or region.",
    "instance_unsupported": "Set `availability_zones` that offer the instance type, or use a type "
    "that fits the AMI and the launch template.",
    "launch_failed": "Fix the cause named in the message: launch template, AMI, subnet, key, or a "
    "policy that denies the launch.",
    "subnet_without_route": "Give the subnet a route out: public addresses and an internet "
    "gateway, `enable_nat_gateway`, or `enable_interface_endpoints`.",
    "no_container_instance": "End the job, as its host is billed until then. Then check the "
    "instance's console output, its network route to ECS, its role and its user data.",
    "agent_disconnected": "Terminate the instance; Batch starts another. If that one disconnects, "
    "too, check its network route to ECS and its memory.",
    "image_missing": "Run `make image`, then `terraform apply`.",
    "image_not_pulled": "See the message: the registry, the execution role or the network route "
    "may be at fault.",
    "behind_other_jobs": "Wait for its turn. If the first job is stuck: `aws batch terminate-job "
    '--job-id ID --reason "stuck"`.',
    "undetermined": "See any other findings; otherwise, check the instances' console output.",
}


class Finding(Record):
    """A proven or suspected reason why a job isn't starting, or why the next one wouldn't."""

    cause: Cause
    certain: bool = Field(
        description="whether AWS's responses prove the cause; if not, it is only suspected"
    )
    evidence: str = Field(description="what AWS returned, with the relevant values")
    remedy: str

    @classmethod
    def of(cls, cause: Cause, evidence: str, *, certain: bool = True) -> Self:
        return cls(cause=cause, certain=certain, evidence=evidence, remedy=REMEDIES[cause])

    def merged(self, other: Self) -> Self:
        certain, evidence = self.certain or other.certain, f"{self.evidence} {other.evidence}"
        return self.model_copy(update={"certain": certain, "evidence": evidence})

    @property
    def certainty(self) -> str:
        return "certain" if self.certain else "suspected"


class Diagnosis(Record):
    """The reasons why a queue's job isn't starting, as far as AWS's APIs reveal them."""

    queue: str
    job_id: str | None = Field(
        description="ID of the diagnosed job; null if no job is waiting or the waiting jobs "
        "are unknown"
    )
    asked_at: AwareDatetime
    findings: tuple[Finding, ...] = Field(description="the causes found, with certain ones first")
    checked: tuple[str, ...] = Field(description="the questions that AWS answered")
    unread: tuple[str, ...] = Field(description="the questions that AWS did not answer, and why")

    @property
    def summary(self) -> str:
        """Summarise the causes found, or state that none were found."""
        subject = f"job {self.job_id} in queue" if self.job_id else "queue"
        subject = f"{subject} {self.queue}"
        if self.findings:
            causes = defaultdict(list)
            for finding in self.findings:
                causes[finding.certainty].append(finding.cause)
            parts = [f"{len(some)} {kind} ({', '.join(some)})" for kind, some in causes.items()]
            return f"Causes found for {subject}: {', '.join(parts)}."
        if self.job_id is None:
            return f"Found nothing that would keep a job in {subject} from starting."
        if self.unread:
            return (
                f"No cause found for {subject}, but {len(self.unread)} question(s) could not be "
                "answered."
            )
        return (
            f"No cause found for {subject}. Most likely EC2 has no free capacity, but that is not "
            "certain."
        )

    def message(self) -> str:
        lines = [f"Diagnosis: {self.summary}"]
        for finding in self.findings:
            lines.append(f"- {finding.certainty}: {finding.evidence}")
            lines.append(f"  Remedy: {finding.remedy}")
        if not self.findings:
            lines.append(f"- checked: {', '.join(self.checked) or 'nothing'}")
        lines += [f"- not asked: {question}" for question in self.unread]
        return in_lines(lines)
