################################################################################
# General
################################################################################

variable "name" {
  description = "The core stack's name"
  type        = string
  default     = "batchmark"

  validation {
    condition     = can(regex("^[a-z][a-z0-9-]{1,18}[a-z0-9]$", var.name))
    error_message = "name is \"${var.name}\"; give the core stack's name: 3 to 20 lower-case letters, digits and hyphens, starting with a letter and not ending with a hyphen."
  }
}

variable "region" {
  description = "The core stack's region"
  type        = string
  default     = "us-east-1"

  validation {
    condition     = can(regex("^[a-z]{2}(-[a-z]+)+-[0-9]$", var.region))
    error_message = "region is \"${var.region}\"; give a region such as \"us-east-1\", not a zone."
  }
}

variable "airflow_variables_prefix" {
  description = "The core stack's prefix"
  type        = string
  default     = "/airflow/variables"

  validation {
    condition     = can(regex("^(/[A-Za-z0-9_.-]+)+$", var.airflow_variables_prefix))
    error_message = "airflow_variables_prefix is \"${var.airflow_variables_prefix}\"; start it with a slash and end it without one, as in \"/airflow/variables\"."
  }
}

variable "local_cloud" {
  description = "Apply to the local cloud (AWS_ENDPOINT_URL)"
  type        = bool
  default     = false
}

variable "tags" {
  description = "Further tags"
  type        = map(string)
  default     = {}

  validation {
    condition     = alltrue([for key, value in var.tags : can(regex("^[\\p{L}\\p{Z}\\p{N}_.:/=+@-]{1,128}$", key)) && !startswith(lower(key), "aws:") && can(regex("^[\\p{L}\\p{Z}\\p{N}_.:/=+@-]{0,256}$", value))])
    error_message = "tags is ${jsonencode(var.tags)}; AWS takes keys of 1 to 128 and values of up to 256 letters, digits, spaces and _.:/=+-@, and no key that starts with aws:."
  }
}

variable "kms_key_arn" {
  description = "The core stack's key, if any, for results, volume and logs, not for EKS's own data"
  type        = string
  default     = null

  validation {
    condition     = var.kms_key_arn == null ? true : can(regex("^arn:[a-z-]+:kms:[a-z0-9-]+:[0-9]{12}:key/.+$", var.kms_key_arn))
    error_message = "kms_key_arn is \"${coalesce(var.kms_key_arn, "null")}\"; give a key's ARN, such as \"arn:aws:kms:us-east-1:111122223333:key/1234abcd-…\", not an alias."
  }
}

variable "permissions_boundary_arn" {
  description = "Permissions boundary of all roles"
  type        = string
  default     = null

  validation {
    condition     = var.permissions_boundary_arn == null ? true : can(regex("^arn:[a-z-]+:iam::([0-9]{12}|aws):policy/.+$", var.permissions_boundary_arn))
    error_message = "permissions_boundary_arn is \"${coalesce(var.permissions_boundary_arn, "null")}\"; give a policy's ARN, such as \"arn:aws:iam::111122223333:policy/boundary\"."
  }
}

variable "iam_path" {
  description = "IAM path"
  type        = string
  default     = "/"

  validation {
    condition     = can(regex("^/([!-.0-~]+/)*$", var.iam_path))
    error_message = "iam_path is \"${var.iam_path}\"; start and end it with a slash, as in \"/research/\"."
  }
}

################################################################################
# Network
################################################################################

variable "subnet_ids" {
  description = "Subnets in two zones, with internet; empty for the core stack's"
  type        = set(string)
  default     = []

  validation {
    condition     = alltrue([for id in var.subnet_ids : startswith(id, "subnet-")])
    error_message = "subnet_ids is ${jsonencode(var.subnet_ids)}; give ids that start with subnet-."
  }
}

variable "private_subnets" {
  description = "Take the core stack's private subnets; its NAT gateway leads to NVIDIA's registry"
  type        = bool
  default     = false
}

variable "api_cidrs" {
  description = "Addresses outside the VPC that reach the cluster's API"
  type        = set(string)
  default     = []

  validation {
    condition     = alltrue([for cidr in var.api_cidrs : can(cidrhost(cidr, 0))])
    error_message = "api_cidrs is ${jsonencode(var.api_cidrs)}; give ranges such as \"203.0.113.0/24\"."
  }
}

variable "airflow_security_group_ids" {
  description = "Security groups that reach the cluster's API, such as stacks/airflow's"
  type        = set(string)
  default     = []

  validation {
    condition     = alltrue([for id in var.airflow_security_group_ids : startswith(id, "sg-")])
    error_message = "airflow_security_group_ids is ${jsonencode(var.airflow_security_group_ids)}; give ids that start with sg-."
  }
}

################################################################################
# Cluster
################################################################################

variable "kubernetes_version" {
  description = "Kubernetes version"
  type        = string
  default     = "1.36"

  # In standard support: 1.33 until 2026-07-29, 1.34 until 2026-12-02, 1.35 until 2027-03-27
  # (https://docs.aws.amazon.com/eks/latest/userguide/kubernetes-versions.html, read in November 2026). NVIDIA AMIs
  # of AL2023 for 1.36 are among the releases of awslabs/amazon-eks-ami.
  validation {
    condition     = can(regex("^1\\.(3[5-9]|[4-9][0-9])$", var.kubernetes_version))
    error_message = "kubernetes_version is \"${var.kubernetes_version}\"; give 1.35 or newer as two numbers, such as \"1.36\": the standard support of 1.33 ended on 2026-07-29 and that of 1.34 ends on 2026-12-02, after which EKS costs six times as much."
  }
}

variable "namespace" {
  description = "Namespace of the benchmark's pods"
  type        = string
  default     = "gpu-demo"

  validation {
    condition     = can(regex("^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$", var.namespace)) && !startswith(var.namespace, "kube-") && var.namespace != "default"
    error_message = "namespace is \"${var.namespace}\"; give up to 63 lower-case letters, digits and hyphens, and neither default nor one of Kubernetes' own (kube-...)."
  }
}

variable "airflow_role_arns" {
  description = "Airflow's roles, which get access and a policy"
  type        = set(string)

  validation {
    condition     = length(var.airflow_role_arns) > 0 && alltrue([for arn in var.airflow_role_arns : can(regex("^arn:[a-z-]+:iam::[0-9]{12}:role/.+$", arn))])
    error_message = "airflow_role_arns is ${jsonencode(var.airflow_role_arns)}; give the ARN of at least one role, such as the core stack's output airflow_role_arn."
  }
}

variable "log_retention_days" {
  description = "Days to keep the control plane's logs"
  type        = number
  default     = 30

  validation {
    condition     = contains([1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365, 400, 545, 731, 1096, 1827, 2192, 2557, 2922, 3288, 3653], var.log_retention_days)
    error_message = "log_retention_days is ${var.log_retention_days}; CloudWatch Logs takes 1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365, 400, 545, 731, 1096, 1827, 2192, 2557, 2922, 3288 or 3653."
  }
}

################################################################################
# GPU node
################################################################################

variable "instance_type" {
  description = "Instance type of the GPU node"
  type        = string
  default     = "g4dn.12xlarge"

  validation {
    condition     = !can(local.families.gpu_families[split(".", var.instance_type)[0]].refused)
    error_message = "instance_type is \"${var.instance_type}\", but ${try(local.families.refusals[local.families.gpu_families[split(".", var.instance_type)[0]].refused], "")}."
  }
}

locals {
  families = jsondecode(file("${path.module}/../../modules/batch/instance_families.json"))
}

variable "replicas_per_gpu" {
  description = "Pods that share a GPU while time-slicing is on"
  type        = number
  default     = 10

  validation {
    condition     = var.replicas_per_gpu >= 2 && var.replicas_per_gpu <= 48 && floor(var.replicas_per_gpu) == var.replicas_per_gpu
    error_message = "replicas_per_gpu is ${var.replicas_per_gpu}; give a whole number from 2 to 48: one is not sharing, and a GPU takes 48 clients at most."
  }
}

variable "device_plugin_image" {
  description = "Image of NVIDIA's device plugin"
  type        = string
  default     = "nvcr.io/nvidia/k8s-device-plugin:v0.20.0@sha256:a61ba9fd8efb82f3a79f877f7580e02c1e8e7593f62473644bc9c79e315c3312"

  validation {
    condition     = can(regex("^[^@\\s]+@sha256:[0-9a-f]{64}$", var.device_plugin_image))
    error_message = "device_plugin_image is \"${var.device_plugin_image}\"; pin it by its digest, as in name:tag@sha256:<64 hex digits>: it runs with rights on the node."
  }
}

variable "volume_size_gib" {
  description = "Size of the node's root volume"
  type        = number
  default     = 100

  validation {
    condition     = var.volume_size_gib >= 50 && var.volume_size_gib <= 16384
    error_message = "volume_size_gib is ${var.volume_size_gib}; give 50 to 16384: the node's image and the job's take more than half of 50."
  }
}

variable "enable_session_manager" {
  description = "Allow shells on the node by Session Manager"
  type        = bool
  default     = false
}

################################################################################
# Benchmark
################################################################################

variable "image_tag" {
  description = "Tag or digest (sha256:...) of the job image"
  type        = string
  default     = "0.2.0"

  validation {
    condition     = can(regex("^(sha256:[0-9a-f]{64}|[A-Za-z0-9_][A-Za-z0-9_.-]{0,127})$", var.image_tag))
    error_message = "image_tag is \"${var.image_tag}\"; give a tag such as \"0.2.0\" or a digest \"sha256:<64 hex digits>\"."
  }
}

variable "timeout_seconds" {
  description = "Most seconds for all pods of one replica count"
  type        = number
  default     = 1800

  validation {
    condition     = var.timeout_seconds >= 60 && var.timeout_seconds <= 86400 && floor(var.timeout_seconds) == var.timeout_seconds
    error_message = "timeout_seconds is ${var.timeout_seconds}; give whole seconds from 60 to 86400."
  }
}
