from moto.iam.models import IAMBackend

from local_cloud.gaps import iam


def test_awss_own_policies_are_read_for_the_partition_that_is_served_alone(monkeypatch):
    monkeypatch.setenv("MOTO_IAM_LOAD_MANAGED_POLICIES", "true")
    monkeypatch.setattr(IAMBackend, "_init_aws_policies", iam.policies_of_aws)
    served, other = (IAMBackend(partition, "123456789012") for partition in ("aws", "aws-cn"))
    assert "arn:aws:iam::aws:policy/AmazonS3ReadOnlyAccess" in served.managed_policies
    assert other.managed_policies == {}
