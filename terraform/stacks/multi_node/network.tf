################################################################################
# The subnet: one, for a cluster placement group lies in one zone
################################################################################

data "aws_subnets" "core" {
  count = var.subnet_id == null ? 1 : 0

  filter {
    name   = "tag:Name"
    values = ["${var.name}-private-*"]
  }

  filter {
    name   = "tag:Project"
    values = [var.name]
  }

  dynamic "filter" {
    for_each = var.zone[*]

    content {
      name   = "availability-zone"
      values = [filter.value]
    }
  }

  lifecycle {
    postcondition {
      condition     = length(self.ids) > 0
      error_message = "Installation \"${var.name}\" has no private subnet in ${coalesce(var.zone, var.region)}. Name another zone, or a subnet of yours in subnet_id."
    }
  }
}

data "aws_subnet" "this" {
  for_each = toset(var.subnet_id == null ? data.aws_subnets.core[0].ids : [var.subnet_id])

  id = each.key
}

data "aws_ec2_instance_type_offerings" "this" {
  location_type = "availability-zone"

  filter {
    name   = "instance-type"
    values = [var.instance_type]
  }
}

locals {
  zones_with_type = sort(data.aws_ec2_instance_type_offerings.this.locations)

  # The first zone that offers the type; where none does, a precondition says so.
  subnets_by_zone = { for subnet in data.aws_subnet.this : subnet.availability_zone => subnet.id... }
  zones           = keys(local.subnets_by_zone)
  zone            = concat([for zone in local.zones : zone if contains(local.zones_with_type, zone)], local.zones)[0]
  subnet_id       = sort(local.subnets_by_zone[local.zone])[0]
  vpc_id          = data.aws_subnet.this[local.subnet_id].vpc_id
}

################################################################################
# Its way out
################################################################################

data "aws_route_tables" "own" {
  vpc_id = local.vpc_id

  filter {
    name   = "association.subnet-id"
    values = [local.subnet_id]
  }
}

data "aws_route_tables" "main" {
  vpc_id = local.vpc_id

  filter {
    name   = "association.main"
    values = ["true"]
  }
}

data "aws_route_table" "this" {
  route_table_id = local.route_table_id
}

locals {
  # A subnet without a table of its own has the VPC's.
  route_table_id = concat(data.aws_route_tables.own.ids, data.aws_route_tables.main.ids)[0]

  default_routes  = [for route in data.aws_route_table.this.routes : route if route.cidr_block == "0.0.0.0/0"]
  default_gateway = length(local.default_routes) > 0 ? coalesce(local.default_routes[0].gateway_id, "another gateway") : "nowhere"
  has_way_out     = anytrue([for route in local.default_routes : !startswith(route.gateway_id, "igw-")])

  # What hosts, agent and job call; without private DNS an endpoint serves nobody here.
  endpoints = merge(
    { for service in ["ecr.api", "ecr.dkr", "ecs", "ecs-agent", "ecs-telemetry", "fsx", "logs", "monitoring", "ssm"] : service => "Interface" },
    { s3 = "Gateway" },
  )
}

data "aws_vpc_endpoint" "needed" {
  for_each = var.endpoints_only ? local.endpoints : {}

  vpc_id       = local.vpc_id
  service_name = "com.amazonaws.${var.region}.${each.key}"
  state        = "available"

  filter {
    name   = "vpc-endpoint-type"
    values = [each.value]
  }

  lifecycle {
    postcondition {
      condition     = each.value == "Gateway" ? contains(self.route_table_ids, local.route_table_id) : self.private_dns_enabled
      error_message = "Endpoint ${self.id} of ${each.key} serves no node in subnet ${local.subnet_id}. ${each.value == "Gateway" ? "Add route table ${local.route_table_id} to it" : "Switch its private DNS on"}."
    }
  }
}

################################################################################
# Security groups
################################################################################

resource "aws_security_group" "nodes" {
  name_prefix = "${local.prefix}-nodes-"
  description = "Multi-node jobs and their hosts: each other, their file system, HTTPS out"
  vpc_id      = local.vpc_id

  tags = { Name = "${local.prefix}-nodes" }

  # A group in use can't be deleted, so its successor has to come first.
  lifecycle {
    create_before_destroy = true
  }
}

resource "aws_security_group" "file_system" {
  name_prefix = "${local.prefix}-file-system-"
  description = "The file system of multi-node jobs: Lustre alone"
  vpc_id      = local.vpc_id

  tags = { Name = "${local.prefix}-file-system" }

  lifecycle {
    create_before_destroy = true
  }
}

# NCCL, gloo and the rendezvous listen at ports that they choose.
resource "aws_vpc_security_group_ingress_rule" "nodes" {
  security_group_id            = aws_security_group.nodes.id
  description                  = "Other nodes"
  referenced_security_group_id = aws_security_group.nodes.id
  ip_protocol                  = "-1"
}

resource "aws_vpc_security_group_egress_rule" "nodes" {
  security_group_id            = aws_security_group.nodes.id
  description                  = "Other nodes"
  referenced_security_group_id = aws_security_group.nodes.id
  ip_protocol                  = "-1"
}

resource "aws_vpc_security_group_egress_rule" "https" {
  security_group_id = aws_security_group.nodes.id
  description       = "AWS APIs, image layers, packages and S3"
  cidr_ipv4         = "0.0.0.0/0"
  ip_protocol       = "tcp"
  from_port         = 443
  to_port           = 443
}

locals {
  lustre_ports = { "988" = 988, "1018" = 1023 }

  # Servers talk to each other and to clients, from both sides; clients to each other they may already.
  lustre_rules = merge([
    for pair in [["file_system", "file_system"], ["file_system", "nodes"], ["nodes", "file_system"]] : {
      for first, last in local.lustre_ports : "${pair[0]}/${pair[1]}/${first}" => { of = pair[0], with = pair[1], first = tonumber(first), last = last }
    }
  ]...)

  groups = { file_system = aws_security_group.file_system.id, nodes = aws_security_group.nodes.id }
}

resource "aws_vpc_security_group_ingress_rule" "lustre" {
  for_each = local.lustre_rules

  security_group_id            = local.groups[each.value.of]
  description                  = "Lustre, from ${replace(each.value.with, "_", " ")}"
  referenced_security_group_id = local.groups[each.value.with]
  ip_protocol                  = "tcp"
  from_port                    = each.value.first
  to_port                      = each.value.last
}

resource "aws_vpc_security_group_egress_rule" "lustre" {
  for_each = local.lustre_rules

  security_group_id            = local.groups[each.value.of]
  description                  = "Lustre, to ${replace(each.value.with, "_", " ")}"
  referenced_security_group_id = local.groups[each.value.with]
  ip_protocol                  = "tcp"
  from_port                    = each.value.first
  to_port                      = each.value.last
}
