output "vpc_id" {
  description = "The VPC"
  value       = aws_vpc.this.id
}

output "public_subnet_ids" {
  description = "Public subnets, one per zone"
  value       = [for subnet in aws_subnet.public : subnet.id]
}

output "private_subnet_ids" {
  description = "Private subnets, one per zone"
  value       = [for subnet in aws_subnet.private : subnet.id]
}

output "instance_subnet_ids" {
  description = "The private subnets with NAT gateway or endpoints, else the public ones"
  value = (
    var.enable_nat_gateway || var.enable_interface_endpoints
    ? [for subnet in aws_subnet.private : subnet.id]
    : [for subnet in aws_subnet.public : subnet.id]
  )

  # An instance that starts before its way out is there fails to join ECS.
  depends_on = [
    aws_route.internet,
    aws_route.nat,
    aws_route_table_association.private,
    aws_route_table_association.public,
    aws_vpc_endpoint.interface,
    aws_vpc_endpoint.s3,
    aws_vpc_security_group_egress_rule.endpoints,
    aws_vpc_security_group_egress_rule.https,
    aws_vpc_security_group_egress_rule.s3,
    aws_vpc_security_group_ingress_rule.endpoints,
  ]
}

output "security_group_id" {
  description = "Security group for instances"
  value       = aws_security_group.this.id
}

output "flow_log_group_name" {
  description = "Log group of flow logs, if any"
  value       = one(aws_cloudwatch_log_group.flow_logs[*].name)
}
