data "aws_caller_identity" "current" {}

data "aws_partition" "current" {}

data "aws_region" "current" {}

data "aws_availability_zones" "available" {
  state = "available"

  # Local Zones are listed too once an account has opted in, and offer few instance types.
  filter {
    name   = "opt-in-status"
    values = ["opt-in-not-required"]
  }
}

data "aws_ec2_instance_type_offerings" "this" {
  for_each = var.instance_types

  location_type = "availability-zone"

  filter {
    name   = "instance-type"
    values = [each.key]
  }
}

locals {
  zones_in_region = sort(data.aws_availability_zones.available.names)
  zones_by_type   = { for type, found in data.aws_ec2_instance_type_offerings.this : type => sort(found.locations) }

  # Those that lack fewest of the types first, in the order of their names.
  zones_ranked = [
    for key in sort([
      for zone in local.zones_in_region :
      format("%04d %s", length([for zones in local.zones_by_type : zone if !contains(zones, zone)]), zone)
    ]) : split(" ", key)[1]
  ]
  zones = sort(length(var.availability_zones) > 0 ? var.availability_zones : slice(local.zones_ranked, 0, min(3, length(local.zones_ranked))))

  unknown_zones = setsubtract(local.zones, local.zones_in_region)
  types_without_zone = {
    for type, zones in local.zones_by_type : type => length(zones) > 0 ? join(", ", zones) : "no zone of this region"
    if length(setintersection(zones, local.zones)) == 0
  }

  # By the zone's place in the region, so that a changed list of zones never moves a subnet that stays.
  zone_numbers  = { for zone in local.zones : zone => try(index(local.zones_in_region, zone), 0) }
  public_cidrs  = { for zone, number in local.zone_numbers : zone => cidrsubnet(var.cidr, 4, number % 8) }
  private_cidrs = { for zone, number in local.zone_numbers : zone => cidrsubnet(var.cidr, 4, number % 8 + 8) }

  account_id = data.aws_caller_identity.current.account_id
  partition  = data.aws_partition.current.partition
  region     = data.aws_region.current.name

  # Where everything that instances call has an endpoint, they need no way to anywhere else.
  endpoints_only = var.enable_interface_endpoints && !var.enable_nat_gateway

  # What the ECS agent and a job call, and the actions that the endpoint's policy is about. STS and KMS
  # are not among them: the agent hands out the roles' credentials, and S3, ECR, EBS and CloudWatch
  # Logs ask KMS themselves. The agent's own two channels keep the default policy: AWS documents none.
  interface_endpoints = var.enable_interface_endpoints ? {
    "ecr.api"       = "ecr:*"
    "ecr.dkr"       = "ecr:*"
    "ecs"           = "ecs:*"
    "ecs-agent"     = null
    "ecs-telemetry" = null
    "logs"          = "logs:*"
    "monitoring"    = "cloudwatch:*"
  } : {}
}

################################################################################
# VPC
################################################################################

resource "aws_vpc" "this" {
  cidr_block           = var.cidr
  enable_dns_hostnames = true
  enable_dns_support   = true

  tags = { Name = var.name }

  lifecycle {
    precondition {
      condition     = length(local.unknown_zones) == 0
      error_message = "availability_zones names ${join(", ", local.unknown_zones)}, which ${local.region} does not have for this account. Name two to six of ${join(", ", local.zones_in_region)}, or none."
    }

    precondition {
      condition     = length(local.types_without_zone) == 0
      error_message = "None of the zones ${join(", ", local.zones)} offers ${join("; nor ", [for type, zones in local.types_without_zone : "${type}, which ${zones} has"])}. Name a zone that has it in availability_zones, or leave the type out."
    }
  }
}

# Adopted to be emptied: nothing may use it by accident.
resource "aws_default_security_group" "this" {
  vpc_id = aws_vpc.this.id

  tags = { Name = "${var.name}-default-unused" }
}

resource "aws_security_group" "this" {
  name_prefix = "${var.name}-instances-"
  description = "Batch instances: nothing in, HTTPS out"
  vpc_id      = aws_vpc.this.id

  tags = { Name = "${var.name}-instances" }

  # A group in use can't be deleted, so its successor has to come first.
  lifecycle {
    create_before_destroy = true
  }
}

resource "aws_vpc_security_group_egress_rule" "https" {
  count = local.endpoints_only ? 0 : 1

  security_group_id = aws_security_group.this.id
  description       = "AWS APIs, image layers and S3"
  cidr_ipv4         = "0.0.0.0/0"
  ip_protocol       = "tcp"
  from_port         = 443
  to_port           = 443
}

resource "aws_vpc_security_group_egress_rule" "endpoints" {
  count = local.endpoints_only ? 1 : 0

  security_group_id            = aws_security_group.this.id
  description                  = "AWS APIs, by their endpoints"
  referenced_security_group_id = aws_security_group.endpoints[0].id
  ip_protocol                  = "tcp"
  from_port                    = 443
  to_port                      = 443
}

# A gateway endpoint has no address of its own: what goes by it still goes to S3's.
resource "aws_vpc_security_group_egress_rule" "s3" {
  count = local.endpoints_only ? 1 : 0

  security_group_id = aws_security_group.this.id
  description       = "Results and image layers, by the S3 endpoint"
  prefix_list_id    = aws_vpc_endpoint.s3.prefix_list_id
  ip_protocol       = "tcp"
  from_port         = 443
  to_port           = 443
}

################################################################################
# Public subnets
################################################################################

resource "aws_internet_gateway" "this" {
  vpc_id = aws_vpc.this.id

  tags = { Name = var.name }
}

resource "aws_subnet" "public" {
  for_each = local.public_cidrs

  vpc_id                  = aws_vpc.this.id
  availability_zone       = each.key
  cidr_block              = each.value
  map_public_ip_on_launch = true

  tags = { Name = "${var.name}-public-${each.key}" }
}

resource "aws_route_table" "public" {
  vpc_id = aws_vpc.this.id

  tags = { Name = "${var.name}-public" }
}

resource "aws_route" "internet" {
  route_table_id         = aws_route_table.public.id
  destination_cidr_block = "0.0.0.0/0"
  gateway_id             = aws_internet_gateway.this.id
}

resource "aws_route_table_association" "public" {
  for_each = aws_subnet.public

  subnet_id      = each.value.id
  route_table_id = aws_route_table.public.id
}

################################################################################
# Private subnets
################################################################################

resource "aws_subnet" "private" {
  for_each = local.private_cidrs

  vpc_id            = aws_vpc.this.id
  availability_zone = each.key
  cidr_block        = each.value

  tags = { Name = "${var.name}-private-${each.key}" }
}

resource "aws_route_table" "private" {
  vpc_id = aws_vpc.this.id

  tags = { Name = "${var.name}-private" }
}

resource "aws_route_table_association" "private" {
  for_each = aws_subnet.private

  subnet_id      = each.value.id
  route_table_id = aws_route_table.private.id
}

resource "aws_eip" "nat" {
  count = var.enable_nat_gateway ? 1 : 0

  domain = "vpc"

  tags = { Name = "${var.name}-nat" }

  depends_on = [aws_internet_gateway.this]
}

resource "aws_nat_gateway" "this" {
  count = var.enable_nat_gateway ? 1 : 0

  allocation_id = aws_eip.nat[0].id
  subnet_id     = aws_subnet.public[local.zones[0]].id

  tags = { Name = var.name }

  depends_on = [aws_internet_gateway.this]
}

resource "aws_route" "nat" {
  count = var.enable_nat_gateway ? 1 : 0

  route_table_id         = aws_route_table.private.id
  destination_cidr_block = "0.0.0.0/0"
  nat_gateway_id         = aws_nat_gateway.this[0].id
}

################################################################################
# S3 endpoint
################################################################################

data "aws_iam_policy_document" "s3_endpoint" {
  statement {
    sid       = "OwnAccount"
    actions   = ["s3:*"]
    resources = ["*"] # the bucket's policy and the callers' roles say more

    principals {
      type        = "AWS"
      identifiers = ["*"]
    }

    condition {
      test     = "StringEquals"
      variable = "aws:PrincipalAccount"
      values   = [local.account_id]
    }
  }

  # ECR keeps layers in a bucket of its own and hands out links that it has signed itself.
  statement {
    sid       = "ImageLayers"
    actions   = ["s3:GetObject"]
    resources = ["arn:${local.partition}:s3:::prod-${local.region}-starport-layer-bucket/*"]

    principals {
      type        = "*"
      identifiers = ["*"]
    }
  }

  # Public data is read unsigned, or by links that its owner has signed: by nobody of this account, so no
  # list of keys would tell it from the rest. Writing stays with the account's own principals.
  dynamic "statement" {
    for_each = var.read_any_bucket ? ["any"] : []

    content {
      sid       = "PublicData"
      actions   = ["s3:GetObject", "s3:ListBucket"]
      resources = ["*"] # each bucket's own policy says who may read it

      principals {
        type        = "*"
        identifiers = ["*"]
      }
    }
  }

  # Where dnf gets Amazon Linux 2023's packages, unsigned.
  statement {
    sid       = "OperatingSystem"
    actions   = ["s3:GetObject"]
    resources = ["arn:${local.partition}:s3:::al2023-repos-${local.region}-de612dc2/*"]

    principals {
      type        = "*"
      identifiers = ["*"]
    }
  }
}

# Free, and keeps results and image layers off the NAT gateway's bill.
resource "aws_vpc_endpoint" "s3" {
  vpc_id            = aws_vpc.this.id
  vpc_endpoint_type = "Gateway"
  service_name      = "com.amazonaws.${local.region}.s3"
  route_table_ids   = [aws_route_table.public.id, aws_route_table.private.id]
  policy            = data.aws_iam_policy_document.s3_endpoint.json

  tags = { Name = "${var.name}-s3" }
}

################################################################################
# Interface endpoints
################################################################################

resource "aws_security_group" "endpoints" {
  count = var.enable_interface_endpoints ? 1 : 0

  name_prefix = "${var.name}-endpoints-"
  description = "Interface endpoints: HTTPS in from the instances, nothing out"
  vpc_id      = aws_vpc.this.id

  tags = { Name = "${var.name}-endpoints" }

  lifecycle {
    create_before_destroy = true
  }
}

resource "aws_vpc_security_group_ingress_rule" "endpoints" {
  count = var.enable_interface_endpoints ? 1 : 0

  security_group_id            = aws_security_group.endpoints[0].id
  description                  = "The instances"
  referenced_security_group_id = aws_security_group.this.id
  ip_protocol                  = "tcp"
  from_port                    = 443
  to_port                      = 443
}

data "aws_iam_policy_document" "interface_endpoint" {
  for_each = { for endpoint, actions in local.interface_endpoints : endpoint => actions if actions != null }

  statement {
    sid       = "OwnAccount"
    actions   = [each.value]
    resources = ["*"] # the callers' roles say more

    principals {
      type        = "AWS"
      identifiers = ["*"]
    }

    condition {
      test     = "StringEquals"
      variable = "aws:PrincipalAccount"
      values   = [local.account_id]
    }
  }
}

resource "aws_vpc_endpoint" "interface" {
  for_each = local.interface_endpoints

  vpc_id              = aws_vpc.this.id
  vpc_endpoint_type   = "Interface"
  service_name        = "com.amazonaws.${local.region}.${each.key}"
  subnet_ids          = [for subnet in aws_subnet.private : subnet.id]
  security_group_ids  = [aws_security_group.endpoints[0].id]
  private_dns_enabled = true
  policy              = try(data.aws_iam_policy_document.interface_endpoint[each.key].json, null)

  tags = { Name = "${var.name}-${replace(each.key, ".", "-")}" }
}
