"""The life of an optional stack on a local cloud: applied, planned again, destroyed."""

import json
from contextlib import closing, contextmanager

from laptop.aws import AwsClients
from laptop.stack import init_one_at_a_time
from tests.e2e.deployer import recorded
from tests.e2e.remains import remains
from tests.e2e.stacks import open_stack
from tests.terraform.plans import destroy_unchanged, planned_changes


@contextmanager
def life_of(name, folder, inputs_of, look):
    """What was found, while the local cloud is still there.

    Args:
        inputs_of: makes what the stack needs there, and returns its inputs.
        look: returns what there is of it and is to be found, given its outputs.
    """
    with open_stack(folder) as stack:
        stack.start_cloud()
        with closing(AwsClients(stack.aws)) as aws:
            inputs = inputs_of(aws)
            stack.keep_provider()
            terraform = stack.terraform_of(name)
            before = remains(stack)
            init_one_at_a_time(terraform)
            terraform.apply(**inputs)
            found = look(aws, terraform.outputs())
            changes = planned_changes(terraform, **inputs)
            destroy_unchanged(terraform, **inputs)
            yield found | {
                "changes": changes,
                "before": before,
                "after": remains(stack),
                "calls": recorded(stack.calls),
            }


def stand_for_the_core_stack(aws, subnets, **told):
    """The ids of a network and of its subnets, and Airflow's role.

    Args:
        subnets: zone and addresses by name.
        told: what else Airflow is told of the core stack.
    """
    ec2 = aws.client("ec2")
    vpc_id = ec2.create_vpc(CidrBlock="10.7.0.0/16")["Vpc"]["VpcId"]
    subnet_ids = []
    for name, (zone, cidr) in subnets.items():
        tags = [{"Key": "Name", "Value": name}, {"Key": "Project", "Value": "batchmark"}]
        made = ec2.create_subnet(
            VpcId=vpc_id,
            CidrBlock=cidr,
            AvailabilityZone=zone,
            TagSpecifications=[{"ResourceType": "subnet", "Tags": tags}],
        )
        subnet_ids.append(made["Subnet"]["SubnetId"])
    aws.client("ecr").create_repository(repositoryName="batchmark-job")
    core = {"schema_version": 1, "name": "batchmark", "bucket": "results"} | told
    aws.client("ssm").put_parameter(
        Name="/airflow/variables/batchmark", Value=json.dumps(core), Type="String"
    )
    role = aws.client("iam").create_role(
        RoleName="batchmark-airflow", AssumeRolePolicyDocument="{}"
    )
    return vpc_id, subnet_ids, role["Role"]["Arn"]


def value(aws, parameter):
    return aws.client("ssm").get_parameter(Name=parameter)["Parameter"]["Value"]
