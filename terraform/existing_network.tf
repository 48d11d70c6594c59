# Where instances start: in the network made here, or in an existing one that is checked first.
locals {
  existing_network   = var.existing_network == null ? [] : [var.existing_network]
  subnet_ids         = flatten([module.network[*].instance_subnet_ids, [for subnet in data.aws_subnet.existing : subnet.id]])
  security_group_ids = flatten([module.network[*].security_group_id, [for group in data.aws_security_group.existing : group.id]])

  existing_zones = toset([for subnet in data.aws_subnet.existing : subnet.availability_zone])
}

data "aws_subnet" "existing" {
  for_each = toset(flatten(local.existing_network[*].subnet_ids))

  id = each.key

  lifecycle {
    postcondition {
      condition     = self.vpc_id == var.existing_network.vpc_id
      error_message = "Subnet ${each.key} lies in ${self.vpc_id}, and existing_network.vpc_id is ${var.existing_network.vpc_id}. Name subnets of one VPC."
    }
  }
}

data "aws_security_group" "existing" {
  for_each = toset(flatten(local.existing_network[*].security_group_ids))

  id = each.key

  lifecycle {
    postcondition {
      condition     = self.vpc_id == var.existing_network.vpc_id
      error_message = "Security group ${each.key} belongs to ${self.vpc_id}, and existing_network.vpc_id is ${var.existing_network.vpc_id}. Name groups of one VPC."
    }
  }
}

data "aws_ec2_instance_type_offerings" "existing" {
  for_each = var.existing_network == null ? [] : local.instance_types

  location_type = "availability-zone"

  filter {
    name   = "instance-type"
    values = [each.key]
  }

  lifecycle {
    postcondition {
      condition     = length(setintersection(self.locations, local.existing_zones)) > 0
      error_message = "${each.key} is not offered in ${join(", ", local.existing_zones)}, where the subnets of existing_network lie, but in ${join(", ", sort(self.locations))}. Name a subnet there, or leave the type out."
    }
  }
}
