"""After which ends Batch tries a job again."""

from batchmark.aws.job_description import HOST_TERMINATED

# As in the job definitions (terraform/modules/batch/main.tf): a retry strategy that is sent with a
# job takes the place of the definition's, rules included.
RETRY_RULES = (
    {"action": "RETRY", "onStatusReason": f"{HOST_TERMINATED}*"},
    {"action": "RETRY", "onReason": "CannotPullContainer*"},
    {"action": "RETRY", "onReason": "DockerTimeoutError*"},
    {"action": "EXIT", "onReason": "*"},
)
