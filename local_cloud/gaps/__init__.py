"""What moto 5.2.5 leaves out of its answers, one file per service."""

from local_cloud.gaps import ec2, iam, s3


def fill() -> None:
    """Patch moto in place; Batch needs none, its gaps are filled by subclasses."""
    ec2.fill()
    iam.fill()
    s3.fill()
