mock_provider "aws" {
  override_during = plan

  mock_data "aws_region" {
    defaults = { name = "eu-central-1" }
  }

  mock_data "aws_caller_identity" {
    defaults = { account_id = "111122223333" }
  }

  mock_data "aws_partition" {
    defaults = { partition = "aws" }
  }

  mock_data "aws_iam_policy_document" {
    defaults = { json = "{\"Version\":\"2012-10-17\",\"Statement\":[]}" }
  }

  mock_resource "aws_cloudwatch_log_group" {
    defaults = { arn = "arn:aws:logs:eu-central-1:111122223333:log-group:/aws/vpc-flow-logs/test" }
  }

  mock_resource "aws_iam_role" {
    defaults = { arn = "arn:aws:iam::111122223333:role/test-flow-logs" }
  }

  mock_data "aws_availability_zones" {
    defaults = { names = ["eu-central-1a", "eu-central-1b", "eu-central-1c"] }
  }
}

variables {
  name = "test"
}

run "defaults" {
  command = plan

  assert {
    condition     = keys(aws_subnet.public) == ["eu-central-1a", "eu-central-1b", "eu-central-1c"] && keys(aws_subnet.private) == keys(aws_subnet.public)
    error_message = "there is one public and one private subnet in each of three zones"
  }

  assert {
    condition = [for subnet in concat(values(aws_subnet.public), values(aws_subnet.private)) : subnet.cidr_block] == [
      "10.42.0.0/20", "10.42.16.0/20", "10.42.32.0/20", "10.42.128.0/20", "10.42.144.0/20", "10.42.160.0/20",
    ]
    error_message = "subnets do not overlap"
  }

  assert {
    condition     = alltrue([for subnet in aws_subnet.public : subnet.map_public_ip_on_launch]) && !anytrue([for subnet in aws_subnet.private : subnet.map_public_ip_on_launch == true])
    error_message = "only public subnets give out public addresses"
  }

  assert {
    condition     = length(aws_nat_gateway.this) + length(aws_eip.nat) + length(aws_route.nat) + length(aws_vpc_endpoint.interface) + length(aws_flow_log.this) + length(aws_cloudwatch_log_group.flow_logs) + length(aws_iam_role.flow_logs) == 0
    error_message = "by default nothing here costs money when idle"
  }

  assert {
    condition     = aws_route.internet.destination_cidr_block == "0.0.0.0/0"
    error_message = "public subnets lead to the internet gateway"
  }

  assert {
    condition     = aws_vpc_endpoint.s3.service_name == "com.amazonaws.eu-central-1.s3" && aws_vpc_endpoint.s3.vpc_endpoint_type == "Gateway"
    error_message = "S3 is reached by its free gateway endpoint"
  }

  assert {
    condition = [
      for rule in aws_vpc_security_group_egress_rule.https : [rule.cidr_ipv4, rule.ip_protocol, rule.from_port, rule.to_port]
    ] == [["0.0.0.0/0", "tcp", 443, 443]]
    error_message = "instances speak HTTPS to the outside"
  }

  assert {
    condition     = length(aws_vpc_security_group_egress_rule.endpoints) + length(aws_vpc_security_group_egress_rule.s3) == 0
    error_message = "and there is nothing else they may speak to"
  }

  assert {
    condition = { for statement in data.aws_iam_policy_document.s3_endpoint.statement : statement.sid => [statement.effect == "Deny", statement.actions, statement.resources] } == {
      OwnAccount      = [false, toset(["s3:*"]), toset(["*"])]
      ImageLayers     = [false, toset(["s3:GetObject"]), toset(["arn:aws:s3:::prod-eu-central-1-starport-layer-bucket/*"])]
      OperatingSystem = [false, toset(["s3:GetObject"]), toset(["arn:aws:s3:::al2023-repos-eu-central-1-de612dc2/*"])]
    }
    error_message = "the S3 endpoint serves this account, and everyone for image layers and packages only"
  }

  assert {
    condition = one(data.aws_iam_policy_document.s3_endpoint.statement[0].condition) == {
      test     = "StringEquals"
      variable = "aws:PrincipalAccount"
      values   = tolist(["111122223333"])
    }
    error_message = "what is not image layers is for this account's principals"
  }
}

run "public_data" {
  command = plan

  variables {
    read_any_bucket = true
  }

  assert {
    condition     = [for statement in data.aws_iam_policy_document.s3_endpoint.statement : [statement.actions, statement.resources, one(statement.principals).type, length(statement.condition)] if statement.sid == "PublicData"] == [[toset(["s3:GetObject", "s3:ListBucket"]), toset(["*"]), "*", 0]]
    error_message = "anybody reads what its owner lets everybody read"
  }

  assert {
    condition     = [for statement in data.aws_iam_policy_document.s3_endpoint.statement : statement.sid if length(statement.condition) == 0 && length(setsubtract(statement.actions, ["s3:GetObject", "s3:ListBucket"])) > 0] == []
    error_message = "nobody writes but this account's principals"
  }
}

run "no_way_in" {
  command = apply

  assert {
    condition     = length(aws_security_group.this.ingress) == 0 && length(aws_default_security_group.this.ingress) == 0 && length(aws_default_security_group.this.egress) == 0
    error_message = "no group lets anything in, and the default one nothing out"
  }

  assert {
    condition     = output.instance_subnet_ids == output.public_subnet_ids && output.flow_log_group_name == null
    error_message = "instances start in the public subnets, from where they reach AWS for nothing"
  }

  assert {
    condition     = aws_vpc_endpoint.s3.route_table_ids == toset([aws_route_table.public.id, aws_route_table.private.id])
    error_message = "both kinds of subnets use the S3 endpoint"
  }
}

run "nat_gateway" {
  command = plan

  variables {
    enable_nat_gateway = true
  }

  assert {
    condition     = length(aws_nat_gateway.this) == 1 && aws_route.nat[0].destination_cidr_block == "0.0.0.0/0"
    error_message = "one NAT gateway serves the private subnets"
  }
}

run "interface_endpoints" {
  command = apply

  variables {
    enable_interface_endpoints = true
  }

  assert {
    condition = toset([for endpoint in aws_vpc_endpoint.interface : endpoint.service_name]) == toset([
      for service in ["ecr.api", "ecr.dkr", "ecs", "ecs-agent", "ecs-telemetry", "logs", "monitoring"] : "com.amazonaws.eu-central-1.${service}"
    ])
    error_message = "everything that an instance calls has an endpoint"
  }

  assert {
    condition = alltrue([
      for endpoint in aws_vpc_endpoint.interface : endpoint.private_dns_enabled
      && endpoint.subnet_ids == toset(output.private_subnet_ids)
      && endpoint.security_group_ids == toset([aws_security_group.endpoints[0].id])
    ])
    error_message = "they stand in the private subnets, behind their own group, under the services' usual names"
  }

  assert {
    condition     = { for name, document in data.aws_iam_policy_document.interface_endpoint : name => one(one(document.statement).actions) } == { "ecr.api" = "ecr:*", "ecr.dkr" = "ecr:*", ecs = "ecs:*", logs = "logs:*", monitoring = "cloudwatch:*" }
    error_message = "each endpoint's policy is about its own service"
  }

  assert {
    condition = alltrue([
      for document in data.aws_iam_policy_document.interface_endpoint : one(one(document.statement).condition) == {
        test     = "StringEquals"
        variable = "aws:PrincipalAccount"
        values   = tolist(["111122223333"])
      }
    ])
    error_message = "no other account's principal gets through"
  }

  assert {
    condition = [
      for rule in aws_vpc_security_group_ingress_rule.endpoints : [rule.referenced_security_group_id, rule.from_port, rule.to_port]
    ] == [[aws_security_group.this.id, 443, 443]]
    error_message = "only instances reach the endpoints, by HTTPS"
  }

  assert {
    condition     = length(aws_vpc_security_group_egress_rule.https) == 0 && length(aws_nat_gateway.this) == 0
    error_message = "instances can't speak to the outside"
  }

  assert {
    condition = concat(
      [for rule in aws_vpc_security_group_egress_rule.endpoints : [rule.referenced_security_group_id, rule.from_port, rule.to_port]],
      [for rule in aws_vpc_security_group_egress_rule.s3 : [rule.prefix_list_id, rule.from_port, rule.to_port]],
      ) == [
      [aws_security_group.endpoints[0].id, 443, 443],
      [aws_vpc_endpoint.s3.prefix_list_id, 443, 443],
    ]
    error_message = "but to the endpoints and S3"
  }

  assert {
    condition     = output.instance_subnet_ids == output.private_subnet_ids
    error_message = "instances start in the private subnets"
  }
}

run "endpoints_beside_a_nat_gateway_and_flow_logs" {
  command = plan

  variables {
    enable_interface_endpoints = true
    enable_nat_gateway         = true
    flow_log_retention_days    = 30
    kms_key_arn                = "arn:aws:kms:eu-central-1:111122223333:key/1"
  }

  assert {
    condition     = length(aws_vpc_endpoint.interface) == 7 && length(aws_vpc_security_group_egress_rule.https) == 1 && length(aws_vpc_security_group_egress_rule.endpoints) + length(aws_vpc_security_group_egress_rule.s3) == 0
    error_message = "with a NAT gateway beside the endpoints the rest of the internet stays in reach"
  }

  assert {
    condition = [for log in aws_flow_log.this : [log.traffic_type, log.log_destination, log.iam_role_arn]] == [
      ["ALL", aws_cloudwatch_log_group.flow_logs[0].arn, aws_iam_role.flow_logs[0].arn],
    ]
    error_message = "all of the VPC's traffic is logged"
  }

  assert {
    condition     = [for group in aws_cloudwatch_log_group.flow_logs : [group.name, group.retention_in_days, group.kms_key_id]] == [["/aws/vpc-flow-logs/test", 30, "arn:aws:kms:eu-central-1:111122223333:key/1"]]
    error_message = "flow logs expire and are encrypted with the key"
  }

  assert {
    condition = { for statement in data.aws_iam_policy_document.flow_logs[0].statement : statement.sid => [statement.actions, statement.resources] } == {
      WriteLogs = [toset(["logs:CreateLogStream", "logs:DescribeLogStreams", "logs:PutLogEvents"]), toset(["arn:aws:logs:eu-central-1:111122223333:log-group:/aws/vpc-flow-logs/test:*"])]
      FindGroup = [toset(["logs:DescribeLogGroups"]), toset(["arn:aws:logs:eu-central-1:111122223333:log-group:*"])]
    }
    error_message = "their role writes their group and no other"
  }

  assert {
    condition     = one(data.aws_iam_policy_document.flow_logs_trust.statement[0].principals).identifiers == toset(["vpc-flow-logs.amazonaws.com"])
    error_message = "only flow logs act as their role"
  }

  assert {
    condition = { for condition in data.aws_iam_policy_document.flow_logs_trust.statement[0].condition : condition.variable => condition.values } == {
      "aws:SourceAccount" = tolist(["111122223333"])
      "aws:SourceArn"     = tolist(["arn:aws:ec2:eu-central-1:111122223333:vpc-flow-log/*"])
    }
    error_message = "and only this account's"
  }
}

run "refuses_odd_retention" {
  command = plan

  variables {
    flow_log_retention_days = 31
  }

  expect_failures = [var.flow_log_retention_days]
}

run "named_zones" {
  command = plan

  variables {
    availability_zones = ["eu-central-1c", "eu-central-1a"]
  }

  assert {
    condition     = keys(aws_subnet.public) == ["eu-central-1a", "eu-central-1c"]
    error_message = "named zones replace those chosen"
  }

  assert {
    condition     = aws_subnet.public["eu-central-1c"].cidr_block == "10.42.32.0/20"
    error_message = "a zone's range does not depend on which others are named"
  }
}

run "zones_that_offer_the_instance_types" {
  command = plan

  variables {
    instance_types = ["c5.2xlarge", "g5.xlarge"]
  }

  override_data {
    target = data.aws_availability_zones.available
    values = { names = ["eu-central-1a", "eu-central-1b", "eu-central-1c", "eu-central-1d", "eu-central-1e", "eu-central-1f"] }
  }

  override_data {
    target = data.aws_ec2_instance_type_offerings.this["c5.2xlarge"]
    values = { locations = ["eu-central-1f", "eu-central-1e", "eu-central-1d", "eu-central-1c", "eu-central-1b", "eu-central-1a"] }
  }

  override_data {
    target = data.aws_ec2_instance_type_offerings.this["g5.xlarge"]
    values = { locations = ["eu-central-1f", "eu-central-1d"] }
  }

  assert {
    condition     = keys(aws_subnet.public) == ["eu-central-1a", "eu-central-1d", "eu-central-1f"]
    error_message = "zones that offer all types come first"
  }
}

run "six_zones" {
  command = plan

  variables {
    cidr               = "10.0.0.0/24"
    availability_zones = ["eu-central-1a", "eu-central-1b", "eu-central-1c", "eu-central-1d", "eu-central-1e", "eu-central-1f"]
  }

  override_data {
    target = data.aws_availability_zones.available
    values = { names = ["eu-central-1a", "eu-central-1b", "eu-central-1c", "eu-central-1d", "eu-central-1e", "eu-central-1f"] }
  }

  assert {
    condition     = length(distinct([for subnet in concat(values(aws_subnet.public), values(aws_subnet.private)) : subnet.cidr_block])) == 12
    error_message = "six zones have room for two subnets each, also in the smallest range"
  }
}

run "refuses_a_zone_of_another_region" {
  command = plan

  variables {
    availability_zones = ["eu-central-1a", "us-east-1a"]
  }

  expect_failures = [aws_vpc.this]
}

run "refuses_zones_without_an_instance_type" {
  command = plan

  variables {
    availability_zones = ["eu-central-1a", "eu-central-1b"]
    instance_types     = ["g5.xlarge"]
  }

  override_data {
    target = data.aws_ec2_instance_type_offerings.this["g5.xlarge"]
    values = { locations = ["eu-central-1c"] }
  }

  expect_failures = [aws_vpc.this]
}

run "roles_within_guardrails" {
  command = plan

  variables {
    flow_log_retention_days  = 30
    iam_path                 = "/research/"
    permissions_boundary_arn = "arn:aws:iam::111122223333:policy/boundary"
  }

  assert {
    condition     = [for role in aws_iam_role.flow_logs : [role.path, role.permissions_boundary]] == [["/research/", "arn:aws:iam::111122223333:policy/boundary"]]
    error_message = "the role has the path and the boundary given"
  }
}

run "refuses_one_zone" {
  command = plan

  variables {
    availability_zones = ["eu-central-1a"]
  }

  expect_failures = [var.availability_zones]
}

run "refuses_the_same_zone_twice" {
  command = plan

  variables {
    availability_zones = ["eu-central-1a", "eu-central-1a"]
  }

  expect_failures = [var.availability_zones]
}

run "refuses_a_small_range" {
  command = plan

  variables {
    cidr = "10.0.0.0/28"
  }

  expect_failures = [var.cidr]
}

run "refuses_no_range" {
  command = plan

  variables {
    cidr = "10.0.0.0"
  }

  expect_failures = [var.cidr]
}
