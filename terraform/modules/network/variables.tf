variable "name" {
  description = "Name of the VPC, prefix of what is in it"
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
  description = "Zones; empty for three with the most instance_types"
  type        = set(string)
  default     = []

  validation {
    condition     = contains([0, 2, 3, 4, 5, 6], length(var.availability_zones))
    error_message = "availability_zones is ${jsonencode(var.availability_zones)}; name two to six different zones, or none for the three that offer the most of the instance types."
  }
}

variable "instance_types" {
  description = "Instance types that the zones must offer"
  type        = set(string)
  default     = []
}

variable "read_any_bucket" {
  description = "Let public data be read through the S3 endpoint"
  type        = bool
  default     = false
}

variable "enable_interface_endpoints" {
  description = "Give private subnets endpoints, which cost by the hour"
  type        = bool
  default     = false
}

variable "enable_nat_gateway" {
  description = "Give private subnets a NAT gateway, which costs by the hour"
  type        = bool
  default     = false
}

variable "flow_log_retention_days" {
  description = "Days to keep flow logs"
  type        = number
  default     = null

  validation {
    condition     = var.flow_log_retention_days == null ? true : contains([1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365, 400, 545, 731, 1096, 1827, 2192, 2557, 2922, 3288, 3653], var.flow_log_retention_days)
    error_message = "flow_log_retention_days is ${coalesce(var.flow_log_retention_days, 0)}; CloudWatch Logs takes 1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365, 400, 545, 731, 1096, 1827, 2192, 2557, 2922, 3288 or 3653; leave it out for no flow logs."
  }
}

variable "kms_key_arn" {
  description = "Key of flow logs"
  type        = string
  default     = null
}

variable "permissions_boundary_arn" {
  description = "Permissions boundary of all roles"
  type        = string
  default     = null
}

variable "iam_path" {
  description = "IAM path"
  type        = string
  default     = "/"
}
