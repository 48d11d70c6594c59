variable "name" {
  description = "Name of the VPC and prefix of what is in it"
  type        = string
}

variable "cidr" {
  description = "Address range of the VPC, /16 to /24; each subnet takes a sixteenth"
  type        = string
  default     = "10.42.0.0/16"

  validation {
    condition     = can(cidrnetmask(var.cidr)) && try(tonumber(split("/", var.cidr)[1]), 0) >= 16 && try(tonumber(split("/", var.cidr)[1]), 32) <= 24
    error_message = "cidr is \"${var.cidr}\"; give an IPv4 range between /16 and /24, such as \"10.42.0.0/16\": AWS allows no larger VPC, and a smaller one leaves subnets too small for 16 instances."
  }
}

variable "availability_zones" {
  description = "The two zones to use; empty for the region's first two"
  type        = list(string)
  default     = []

  validation {
    condition     = contains([0, 2], length(distinct(var.availability_zones))) && length(distinct(var.availability_zones)) == length(var.availability_zones)
    error_message = "availability_zones is ${jsonencode(var.availability_zones)}; name two different zones, or none for the region's first two."
  }
}

variable "enable_nat_gateway" {
  description = "Give the private subnets a way out through a NAT gateway, which costs by the hour"
  type        = bool
  default     = false
}
