"""What a local cloud still holds."""

from contextlib import closing

from laptop.aws import AwsClients

# service -> (call, key of its answer) for each kind of resource that the stack makes
LISTINGS = {
    "athena": [("list_work_groups", "WorkGroups")],
    "batch": [
        ("describe_compute_environments", "computeEnvironments"),
        ("describe_job_queues", "jobQueues"),
        ("describe_job_definitions", "jobDefinitions"),
    ],
    "cloudwatch": [
        ("describe_alarms", "MetricAlarms"),
        ("list_dashboards", "DashboardEntries"),
    ],
    "ec2": [
        ("describe_addresses", "Addresses"),
        ("describe_internet_gateways", "InternetGateways"),
        ("describe_launch_templates", "LaunchTemplates"),
        ("describe_nat_gateways", "NatGateways"),
        ("describe_vpc_endpoints", "VpcEndpoints"),
        ("describe_flow_logs", "FlowLogs"),
    ],
    "ecr": [("describe_repositories", "repositories")],
    "ecs": [("list_clusters", "clusterArns")],
    "events": [("list_rules", "Rules")],
    "glue": [("get_databases", "DatabaseList")],
    "iam": [("list_instance_profiles", "InstanceProfiles")],
    "kms": [("list_aliases", "Aliases")],
    "logs": [
        ("describe_log_groups", "logGroups"),
        ("describe_metric_filters", "metricFilters"),
        ("describe_resource_policies", "resourcePolicies"),
    ],
    "s3": [("list_buckets", "Buckets")],
    "sns": [("list_subscriptions", "Subscriptions"), ("list_topics", "Topics")],
    "ssm": [("describe_parameters", "Parameters")],
}


# What of these counts: an empty account has the rest, or moto goes on listing it.
COUNTS = {
    "list_aliases": lambda alias: not alias["AliasName"].startswith("alias/aws/"),
    "list_work_groups": lambda group: group["Name"] != "primary",
    "describe_job_definitions": lambda definition: definition["status"] == "ACTIVE",
    "describe_nat_gateways": lambda gateway: gateway["State"] != "deleted",
}


def remains(stack):
    """Every resource the server still knows, but for what an empty account has."""
    with closing(AwsClients(stack.aws)) as aws:
        found = {
            call: list(filter(COUNTS.get(call), getattr(aws.client(service), call)()[key]))
            for service, calls in LISTINGS.items()
            for call, key in calls
        }
        ours = [{"Name": "is-default", "Values": ["false"]}]
        found["vpcs"] = aws.client("ec2").describe_vpcs(Filters=ours)["Vpcs"]
        found["policies"] = aws.client("iam").list_policies(Scope="Local")["Policies"]
        found["roles"] = [
            role["RoleName"]
            for role in aws.client("iam").list_roles()["Roles"]
            if not role["Path"].startswith("/aws-service-role/")
        ]
        account = aws.client("sts").get_caller_identity()["Account"]
        budgets = aws.client("budgets").describe_budgets(AccountId=account)
        found["budgets"] = budgets.get("Budgets", [])
    return {kind: listed for kind, listed in found.items() if listed}
