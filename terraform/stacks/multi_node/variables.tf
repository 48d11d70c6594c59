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
  description = "The core stack's key, if any"
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

variable "zone" {
  description = "Zone of the core stack's private subnet"
  type        = string
  default     = null

  validation {
    condition     = var.zone == null ? true : startswith(var.zone, var.region) && can(regex("^[a-z]{2}(-[a-z]+)+-[0-9][a-z]$", var.zone))
    error_message = "zone is \"${coalesce(var.zone, "null")}\"; give one zone of ${var.region}, such as \"${var.region}a\"."
  }
}

variable "subnet_id" {
  description = "Your subnet, in place of the core stack's"
  type        = string
  default     = null

  validation {
    condition     = var.subnet_id == null ? true : startswith(var.subnet_id, "subnet-")
    error_message = "subnet_id is \"${coalesce(var.subnet_id, "null")}\"; give an id that starts with subnet-."
  }

  validation {
    condition     = var.subnet_id == null || var.zone == null
    error_message = "subnet_id is \"${coalesce(var.subnet_id, "null")}\" and zone is \"${coalesce(var.zone, "null")}\"; give one of them: a subnet lies in one zone."
  }
}

variable "endpoints_only" {
  description = "The subnet has endpoints, which are looked up, in place of a NAT gateway"
  type        = bool
  default     = false
}

variable "security_group_ids" {
  description = "Further security groups of nodes"
  type        = set(string)
  default     = []

  validation {
    condition     = length(var.security_group_ids) <= 4 && alltrue([for id in var.security_group_ids : startswith(id, "sg-")])
    error_message = "security_group_ids is ${jsonencode(var.security_group_ids)}; give up to four ids that start with sg-: Batch takes five groups, and one is the nodes' own."
  }
}

variable "placement_group" {
  description = "Start nodes in a cluster placement group, which has less capacity"
  type        = bool
  default     = true
}

################################################################################
# Nodes
################################################################################

variable "instance_type" {
  description = "Instance type of the nodes"
  type        = string
  default     = "g5.12xlarge"

  validation {
    condition     = can(regex("^[a-z][a-z0-9-]*\\.[a-z0-9-]+$", var.instance_type))
    error_message = "instance_type is \"${var.instance_type}\"; write it as family.size, such as \"g5.12xlarge\" or \"p4d.24xlarge\"."
  }

  validation {
    condition     = !can(local.families.gpu_families[split(".", var.instance_type)[0]].refused)
    error_message = "instance_type is \"${var.instance_type}\", but ${try(local.families.refusals[local.families.gpu_families[split(".", var.instance_type)[0]].refused], "")}."
  }
}

locals {
  families = jsondecode(file("${path.module}/../../modules/batch/instance_families.json"))
}

variable "most_nodes" {
  description = "Most nodes of a job, and of all jobs at once"
  type        = number
  default     = 20

  validation {
    condition     = var.most_nodes >= 1 && var.most_nodes <= 1000 && floor(var.most_nodes) == var.most_nodes
    error_message = "most_nodes is ${var.most_nodes}; give a whole number from 1 to 1000, which is the most that Batch gives a multi-node job."
  }
}

variable "purchasing" {
  description = "How nodes are bought: only on_demand"
  type        = string
  default     = "on_demand"

  validation {
    condition     = var.purchasing == "on_demand"
    error_message = "purchasing is \"${var.purchasing}\"; it has to be on_demand: Batch runs no multi-node job in an environment that uses Spot, and one reclaimed node would end the work of all."
  }
}

variable "ami_id" {
  description = "Your AMI, based on the ECS-optimised Amazon Linux 2023"
  type        = string
  default     = null

  validation {
    condition     = var.ami_id == null ? true : can(regex("^ami-[0-9a-f]{8,17}$", var.ami_id))
    error_message = "ami_id is \"${coalesce(var.ami_id, "null")}\"; give the id of an ECS-optimised Amazon Linux 2023 image, such as \"ami-0123456789abcdef0\", or none."
  }
}

variable "ami_release" {
  description = "Each change takes the newest AMI"
  type        = string
  default     = ""
}

variable "volume_size_gib" {
  description = "Size of root volumes, which hold /scratch if the type has no disks"
  type        = number
  default     = 500

  validation {
    condition     = var.volume_size_gib >= 32 && var.volume_size_gib <= 16384 && floor(var.volume_size_gib) == var.volume_size_gib
    error_message = "volume_size_gib is ${var.volume_size_gib}; give a whole number from 32, which the GPU AMI and the job image need, to 16384, the largest gp3 volume."
  }
}

variable "enable_session_manager" {
  description = "Allow shells on nodes by Session Manager"
  type        = bool
  default     = false
}

################################################################################
# File system
################################################################################

variable "file_system" {
  description = "A run's file system: deployment type, size, throughput, Lustre version, linked prefix, folder"
  type        = map(string)
  default     = {}
  nullable    = false

  validation {
    condition     = length(setsubtract(keys(var.file_system), keys(local.file_system_defaults))) == 0
    error_message = "file_system has ${join(", ", setsubtract(keys(var.file_system), keys(local.file_system_defaults)))}; correct the name. It takes ${join(", ", keys(local.file_system_defaults))}."
  }

  validation {
    condition     = try(var.file_system.deployment_type == null, true) || try(contains(["SCRATCH_2", "PERSISTENT_1", "PERSISTENT_2"], var.file_system.deployment_type), false)
    error_message = "file_system.deployment_type is ${jsonencode(lookup(var.file_system, "deployment_type", null))}; it is one of SCRATCH_2, PERSISTENT_1 and PERSISTENT_2. SCRATCH_1 takes no data repository association, and so no link to the bucket."
  }

  validation {
    condition     = try(var.file_system.storage_gib == null, true) || try(tonumber(var.file_system.storage_gib) == 1200 || (var.file_system.storage_gib >= 2400 && var.file_system.storage_gib % 2400 == 0), false)
    error_message = "file_system.storage_gib is ${jsonencode(lookup(var.file_system, "storage_gib", null))}; FSx takes 1200, 2400, and then steps of 2400 (3600 is for SCRATCH_1 alone)."
  }

  validation {
    condition = contains(
      try({ PERSISTENT_1 = ["50", "100", "200"], PERSISTENT_2 = ["125", "250", "500", "1000"] }[var.file_system.deployment_type], ["none"]),
      try(var.file_system.throughput == null ? "none" : var.file_system.throughput, "none"),
    )
    error_message = "file_system.throughput is ${jsonencode(lookup(var.file_system, "throughput", null))} for ${try(coalesce(var.file_system.deployment_type), "SCRATCH_2")}; PERSISTENT_1 takes 50, 100 or 200 MB/s for each TiB, PERSISTENT_2 125, 250, 500 or 1000, and SCRATCH_2 none: it has its own."
  }

  validation {
    condition     = try(var.file_system.version == null, true) || try(contains(["2.12", "2.15"], var.file_system.version), false)
    error_message = "file_system.version is ${jsonencode(lookup(var.file_system, "version", null))}; it is 2.12 or 2.15. Amazon Linux 2023's client can't mount 2.10, and 2.10 takes no data repository association."
  }

  validation {
    condition     = try(var.file_system.prefix == null, true) || can(regex("^([A-Za-z0-9][A-Za-z0-9_.=-]*/)+$", var.file_system.prefix))
    error_message = "file_system.prefix is ${jsonencode(lookup(var.file_system, "prefix", null))}; give folders of the bucket with a slash at the end and none at the start, such as \"images/\"."
  }

  validation {
    condition     = try(var.file_system.folder == null, true) || can(regex("^(/[A-Za-z0-9][A-Za-z0-9_.-]*)+$", var.file_system.folder))
    error_message = "file_system.folder is ${jsonencode(lookup(var.file_system, "folder", null))}; give a path with a slash at the start and none at the end, such as \"/images\"."
  }
}

locals {
  file_system_defaults = {
    deployment_type = "SCRATCH_2"
    storage_gib     = 1200
    throughput      = null
    version         = "2.15"
    prefix          = "images/"
    folder          = "/images"
  }
}

################################################################################
# Jobs
################################################################################

variable "airflow_role_arns" {
  description = "Airflow's roles, which get the policy"
  type        = set(string)
  default     = []

  validation {
    condition     = alltrue([for arn in var.airflow_role_arns : can(regex("^arn:[a-z-]+:iam::[0-9]{12}:role/.+$", arn))])
    error_message = "airflow_role_arns is ${jsonencode(var.airflow_role_arns)}; give ARNs of roles, such as the core stack's output airflow_role_arn."
  }
}

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
  description = "Most seconds that a job may take"
  type        = number
  default     = 3600

  validation {
    condition     = var.timeout_seconds >= 60 && var.timeout_seconds <= 86400 && floor(var.timeout_seconds) == var.timeout_seconds
    error_message = "timeout_seconds is ${var.timeout_seconds}; give whole seconds from 60 to 86400."
  }
}

variable "runnable_timeout_seconds" {
  description = "Seconds until a stuck job is cancelled"
  type        = number
  default     = 1800

  validation {
    condition     = var.runnable_timeout_seconds >= 600 && var.runnable_timeout_seconds <= 86400 && floor(var.runnable_timeout_seconds) == var.runnable_timeout_seconds
    error_message = "runnable_timeout_seconds is ${var.runnable_timeout_seconds}; Batch takes whole seconds from 600 to 86400."
  }
}

variable "job_vcpus" {
  description = "vCPUs of a job per node; none for all"
  type        = number
  default     = null

  validation {
    condition     = var.job_vcpus == null ? true : var.job_vcpus >= 1 && floor(var.job_vcpus) == var.job_vcpus
    error_message = "job_vcpus is ${coalesce(var.job_vcpus, 0)}; give a whole number, at least 1, or none for all of a node's."
  }
}

variable "job_memory_mib" {
  description = "Memory of a job per node; none for seven eighths"
  type        = number
  default     = null

  validation {
    condition     = var.job_memory_mib == null ? true : var.job_memory_mib >= 512 && floor(var.job_memory_mib) == var.job_memory_mib
    error_message = "job_memory_mib is ${coalesce(var.job_memory_mib, 0)}; give a whole number of MiB, at least 512, or none for seven eighths of a node's."
  }
}

variable "shared_memory_mib" {
  description = "Shared memory of a job per node; none for modules/batch's default"
  type        = number
  default     = null

  validation {
    condition     = var.shared_memory_mib == null ? true : var.shared_memory_mib >= 64 && floor(var.shared_memory_mib) == var.shared_memory_mib
    error_message = "shared_memory_mib is ${coalesce(var.shared_memory_mib, 0)}; give a whole number of MiB, at least 64, or none for a value that suits the type."
  }
}

variable "allow_cpu_fallback" {
  description = "Let jobs run on the CPU where no GPU is seen"
  type        = bool
  default     = false
}
