"""What moto 5.2.5 leaves out of its answers, one file per service."""

from local_cloud.gaps import athena, budgets, ec2, events, iam, s3


def fill() -> None:
    """Patch moto in place; Batch needs none, its gaps are filled by subclasses."""
    athena.fill()
    budgets.fill()
    ec2.fill()
    events.fill()
    iam.fill()
    s3.fill()
