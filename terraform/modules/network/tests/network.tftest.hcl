mock_provider "aws" {
  override_during = plan

  mock_data "aws_region" {
    defaults = { name = "eu-central-1" }
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
    condition     = keys(aws_subnet.public) == ["eu-central-1a", "eu-central-1b"] && keys(aws_subnet.private) == ["eu-central-1a", "eu-central-1b"]
    error_message = "there is one public and one private subnet in each of the first two zones"
  }

  assert {
    condition = [for subnet in concat(values(aws_subnet.public), values(aws_subnet.private)) : subnet.cidr_block] == [
      "10.42.0.0/20", "10.42.16.0/20", "10.42.128.0/20", "10.42.144.0/20",
    ]
    error_message = "subnets do not overlap"
  }

  assert {
    condition     = alltrue([for subnet in aws_subnet.public : subnet.map_public_ip_on_launch]) && !anytrue([for subnet in aws_subnet.private : subnet.map_public_ip_on_launch == true])
    error_message = "only public subnets give out public addresses"
  }

  assert {
    condition     = length(aws_nat_gateway.this) == 0 && length(aws_eip.nat) == 0 && length(aws_route.nat) == 0
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
    condition     = aws_vpc_security_group_egress_rule.https.from_port == 443 && aws_vpc_security_group_egress_rule.https.to_port == 443 && aws_vpc_security_group_egress_rule.https.ip_protocol == "tcp"
    error_message = "instances speak HTTPS to the outside and nothing else"
  }
}

run "no_way_in" {
  command = apply

  assert {
    condition     = length(aws_security_group.this.ingress) == 0 && length(aws_default_security_group.this.ingress) == 0 && length(aws_default_security_group.this.egress) == 0
    error_message = "no group lets anything in, and the default one nothing out"
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

run "named_zones" {
  command = plan

  variables {
    availability_zones = ["eu-central-1c", "eu-central-1a"]
  }

  assert {
    condition     = keys(aws_subnet.public) == ["eu-central-1a", "eu-central-1c"]
    error_message = "named zones replace the region's first two"
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
