output "vpc_id" {
  description = "The VPC"
  value       = aws_vpc.this.id
}

output "public_subnet_ids" {
  description = "Subnets with a route to the internet gateway, one per zone"
  value       = [for subnet in aws_subnet.public : subnet.id]
}

output "private_subnet_ids" {
  description = "Subnets that reach the internet through the NAT gateway or not at all, one per zone"
  value       = [for subnet in aws_subnet.private : subnet.id]
}

output "security_group_id" {
  description = "Security group for instances: nothing in, HTTPS out"
  value       = aws_security_group.this.id
}
