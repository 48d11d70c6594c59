################################################################################
# General
################################################################################

variable "name" {
  description = "Prefix of all names; the log group is /aws/batch/NAME"
  type        = string
}

variable "tags" {
  description = "Tags of instances and volumes, which default tags don't reach"
  type        = map(string)
  default     = {}
}

variable "subnet_ids" {
  description = "Subnets to start instances in"
  type        = list(string)
}

variable "security_group_ids" {
  description = "Security groups of the instances"
  type        = list(string)
}

variable "bucket_name" {
  description = "Bucket of raw results"
  type        = string
}

variable "bucket_arn" {
  description = "ARN of the result bucket"
  type        = string
}

variable "kms_key_arn" {
  description = "Key of volumes, job logs and bucket"
  type        = string
  default     = null
}

variable "metrics_namespace" {
  description = "CloudWatch namespace of the jobs' telemetry"
  type        = string
  default     = "Batchmark"

  validation {
    condition     = can(regex("^[A-Za-z0-9._/#-]{1,255}$", var.metrics_namespace)) && !startswith(var.metrics_namespace, "AWS/")
    error_message = "metrics_namespace is \"${var.metrics_namespace}\"; use 1 to 255 letters, digits and ._/#-, and do not start it with AWS/, which is AWS's own."
  }
}

variable "image" {
  description = "Job image, with tag or digest"
  type        = string
}

variable "cpu_image" {
  description = "Job image of CPU targets, if different"
  type        = string
  default     = null
}

variable "ecr_repository_arn" {
  description = "Repository of the job image"
  type        = string
}

variable "further_images" {
  description = "Further images that these roles pull"
  type        = set(string)
  default     = []
}

################################################################################
# Targets
################################################################################

variable "gpu_instance_types" {
  description = "GPU instance types, each a target"
  type        = set(string)

  validation {
    condition     = alltrue([for type in var.gpu_instance_types : can(regex("^[a-z][a-z0-9-]*\\.[a-z0-9-]+$", type))])
    error_message = "gpu_instance_types is ${jsonencode(var.gpu_instance_types)}; write each as family.size, such as \"g5.xlarge\"."
  }

  validation {
    condition     = !anytrue([for type in var.gpu_instance_types : contains(keys(local.refused), split(".", type)[0])])
    error_message = "gpu_instance_types has ${join("; ", [for type in var.gpu_instance_types : "${type}, but ${local.refused[split(".", type)[0]]}" if contains(keys(local.refused), split(".", type)[0])])}."
  }
}

variable "cpu_instance_types" {
  description = "CPU instance types, each a target"
  type        = set(string)

  validation {
    condition     = alltrue([for type in var.cpu_instance_types : can(regex("^[a-z][a-z0-9-]*\\.[a-z0-9-]+$", type))])
    error_message = "cpu_instance_types is ${jsonencode(var.cpu_instance_types)}; write each as family.size, such as \"c5.2xlarge\"."
  }

  validation {
    condition     = length(setintersection(var.cpu_instance_types, var.gpu_instance_types)) == 0
    error_message = "${join(", ", setintersection(var.cpu_instance_types, var.gpu_instance_types))} stands in both gpu_instance_types and cpu_instance_types; a target is named after its instance type, so name each in one list only."
  }
}

variable "shared_targets" {
  description = "Targets whose jobs share a GPU"
  type = map(object({
    instance_type = string
    mode          = string
    max_replicas  = number
  }))
  default = {}

  validation {
    condition     = length(var.gpu_instance_types) + length(var.cpu_instance_types) + length(var.shared_targets) > 0
    error_message = "gpu_instance_types, cpu_instance_types and shared_targets are all empty; name at least one instance type to measure."
  }

  validation {
    condition     = alltrue([for name in keys(var.shared_targets) : can(regex("^[a-z][a-z0-9.-]{0,38}[a-z0-9]$", name)) && !endswith(name, "-on-demand") && !endswith(name, "-spot")])
    error_message = "shared_targets names ${jsonencode(keys(var.shared_targets))}; use 2 to 40 lower-case letters, digits, dots and hyphens, starting with a letter, such as \"g5.8xlarge-shared\", and end none with -on-demand or -spot, as queues and compute environments do."
  }

  validation {
    condition     = alltrue([for name, shared in var.shared_targets : !contains(setunion(var.gpu_instance_types, var.cpu_instance_types, [shared.instance_type]), name)])
    error_message = "shared_targets names ${jsonencode(keys(var.shared_targets))}, and a target that is named after its instance type has its instances to itself. Use a name of its own, such as \"g5.8xlarge-shared\"."
  }

  validation {
    condition     = length(distinct([for name in concat(keys(var.shared_targets), tolist(var.gpu_instance_types), tolist(var.cpu_instance_types)) : replace(name, ".", "-")])) == length(var.shared_targets) + length(setunion(var.gpu_instance_types, var.cpu_instance_types))
    error_message = "shared_targets names ${jsonencode(keys(var.shared_targets))}, of which one would be called as another target is: in names of queues a dot becomes a hyphen. Use another name."
  }

  validation {
    condition     = alltrue([for shared in values(var.shared_targets) : can(regex("^[a-z][a-z0-9-]*\\.[a-z0-9-]+$", shared.instance_type))])
    error_message = "instance_type of shared_targets is ${join(", ", [for name, shared in var.shared_targets : "\"${shared.instance_type}\" for ${name}"])}; write it as family.size, such as \"g5.8xlarge\"."
  }

  validation {
    condition     = !anytrue([for shared in values(var.shared_targets) : contains(keys(local.refused), split(".", shared.instance_type)[0])])
    error_message = "shared_targets has ${join("; ", [for name, shared in var.shared_targets : "${shared.instance_type} for ${name}, but ${local.refused[split(".", shared.instance_type)[0]]}" if contains(keys(local.refused), split(".", shared.instance_type)[0])])}."
  }

  validation {
    condition     = alltrue([for shared in values(var.shared_targets) : contains(["time_slicing", "mps"], shared.mode)])
    error_message = "mode of shared_targets is ${join(", ", [for name, shared in var.shared_targets : "\"${shared.mode}\" for ${name}"])}; it is time_slicing or mps. For a GPU that one job has to itself, name the type in gpu_instance_types."
  }

  validation {
    condition     = alltrue([for shared in values(var.shared_targets) : shared.max_replicas >= 2 && floor(shared.max_replicas) == shared.max_replicas])
    error_message = "max_replicas is ${join(", ", [for name, shared in var.shared_targets : "${shared.max_replicas} for ${name}"])}; give a whole number, at least 2 and at most the instance's vCPUs: each job needs one."
  }
}

variable "target_overrides" {
  description = "Settings of single targets"
  type = map(object({
    vcpus                    = optional(number)
    memory_mib               = optional(number)
    gpus                     = optional(number)
    shared_memory_mib        = optional(number)
    purchasing               = optional(string)
    spot_bid_percentage      = optional(number)
    max_vcpus                = optional(number)
    spot_max_vcpus           = optional(number)
    image_type               = optional(string)
    image_id                 = optional(string)
    capacity_reservation     = optional(string)
    capacity_block           = optional(string)
    volume_size_gib          = optional(number)
    timeout_seconds          = optional(number)
    attempts                 = optional(number)
    allow_cpu_fallback       = optional(bool)
    instance_store_scratch   = optional(bool)
    map_nvidia_device        = optional(bool)
    readonly_root_filesystem = optional(bool)
  }))
  default = {}

  validation {
    condition     = alltrue([for name in keys(var.target_overrides) : contains(keys(local.instance_types), name)])
    error_message = "target_overrides names ${join(", ", setsubtract(keys(var.target_overrides), keys(local.instance_types)))}, which is no target; correct the name, or add it to gpu_instance_types, cpu_instance_types or shared_targets."
  }

  validation {
    condition = alltrue([
      for name, o in var.target_overrides :
      alltrue([for setting in [o.gpus, o.max_vcpus, o.spot_max_vcpus, o.spot_bid_percentage, o.map_nvidia_device] : setting == null]) && coalesce(o.purchasing, "on_demand") == "on_demand"
      if contains(keys(var.shared_targets), name)
    ])
    error_message = "target_overrides sets gpus, max_vcpus, purchasing, spot_max_vcpus, spot_bid_percentage or map_nvidia_device for ${join(", ", setintersection(keys(var.target_overrides), keys(var.shared_targets)))}; leave these out. Jobs of a shared target ask for no GPU, and run on one On-Demand instance."
  }

  validation {
    condition     = alltrue([for o in values(var.target_overrides) : o.vcpus == null ? true : o.vcpus >= 1 && floor(o.vcpus) == o.vcpus])
    error_message = "vcpus is ${join(", ", [for type, o in var.target_overrides : "${o.vcpus} for ${type}" if o.vcpus != null])}; give a whole number, at least 1, or leave it out for all the instance has."
  }

  validation {
    condition     = alltrue([for o in values(var.target_overrides) : o.memory_mib == null ? true : o.memory_mib >= 512 && floor(o.memory_mib) == o.memory_mib])
    error_message = "memory_mib is ${join(", ", [for type, o in var.target_overrides : "${o.memory_mib} for ${type}" if o.memory_mib != null])}; give a whole number of MiB, at least 512, or leave it out for seven eighths of what the instance has."
  }

  validation {
    condition     = alltrue([for o in values(var.target_overrides) : o.shared_memory_mib == null ? true : o.shared_memory_mib >= 64 && floor(o.shared_memory_mib) == o.shared_memory_mib])
    error_message = "shared_memory_mib is ${join(", ", [for type, o in var.target_overrides : "${o.shared_memory_mib} for ${type}" if o.shared_memory_mib != null])}; give a whole number of MiB, at least 64, or leave it out for a value that suits the target."
  }

  validation {
    condition     = alltrue([for type, o in var.target_overrides : o.gpus == null ? true : o.gpus >= 1 && floor(o.gpus) == o.gpus && contains(var.gpu_instance_types, type)])
    error_message = "gpus is ${join(", ", [for type, o in var.target_overrides : "${o.gpus} for ${type}" if o.gpus != null])}; only a type in gpu_instance_types takes it, as a whole number, at least 1: Batch assigns whole GPUs. Leave it out for all the instance has."
  }

  validation {
    condition     = alltrue([for o in values(var.target_overrides) : o.max_vcpus == null ? true : o.max_vcpus >= 1 && o.max_vcpus <= 10000 && floor(o.max_vcpus) == o.max_vcpus])
    error_message = "max_vcpus is ${join(", ", [for type, o in var.target_overrides : "${o.max_vcpus} for ${type}" if o.max_vcpus != null])}; give a whole number from 1 to 10000."
  }

  validation {
    condition     = alltrue([for o in values(var.target_overrides) : o.spot_max_vcpus == null ? true : o.spot_max_vcpus >= 1 && o.spot_max_vcpus <= 10000 && floor(o.spot_max_vcpus) == o.spot_max_vcpus && coalesce(o.purchasing, var.purchasing) != "on_demand"])
    error_message = "spot_max_vcpus is ${join(", ", [for type, o in var.target_overrides : "${o.spot_max_vcpus} for ${type}" if o.spot_max_vcpus != null])}; give a whole number from 1 to 10000, and only where purchasing is spot_first or spot. Leave it out for max_vcpus."
  }

  validation {
    condition     = alltrue([for o in values(var.target_overrides) : o.timeout_seconds == null ? true : o.timeout_seconds >= 60 && o.timeout_seconds <= 86400 && floor(o.timeout_seconds) == o.timeout_seconds])
    error_message = "timeout_seconds is ${join(", ", [for type, o in var.target_overrides : "${o.timeout_seconds} for ${type}" if o.timeout_seconds != null])}; give whole seconds from 60, the least Batch takes, to 86400: a longer benchmark wants splitting."
  }

  validation {
    condition     = alltrue([for o in values(var.target_overrides) : o.attempts == null ? true : o.attempts >= 1 && o.attempts <= 10 && floor(o.attempts) == o.attempts])
    error_message = "attempts is ${join(", ", [for type, o in var.target_overrides : "${o.attempts} for ${type}" if o.attempts != null])}; Batch takes 1 to 10."
  }

  validation {
    condition     = alltrue([for o in values(var.target_overrides) : o.purchasing == null ? true : contains(["spot_first", "spot", "on_demand"], o.purchasing)])
    error_message = "purchasing is ${join(", ", [for type, o in var.target_overrides : "\"${o.purchasing}\" for ${type}" if o.purchasing != null])}; it is one of spot_first, spot and on_demand. How instances are picked follows from it: SPOT_PRICE_CAPACITY_OPTIMIZED for Spot, BEST_FIT_PROGRESSIVE for On-Demand."
  }

  validation {
    condition     = alltrue([for name, o in var.target_overrides : o.capacity_reservation == null ? true : can(regex("^(cr-[0-9a-f]{8,17}|arn:[a-z-]+:resource-groups:.+:group/.+)$", o.capacity_reservation)) && (contains(keys(var.shared_targets), name) || coalesce(o.purchasing, var.purchasing) == "on_demand")])
    error_message = "capacity_reservation is ${join(", ", [for type, o in var.target_overrides : "\"${o.capacity_reservation}\" for ${type}" if o.capacity_reservation != null])}; give the id of a Capacity Reservation (cr-…) or the ARN of a resource group of them, and only where purchasing is on_demand: Spot can't use one."
  }

  validation {
    condition     = alltrue([for name, o in var.target_overrides : o.capacity_block == null ? true : can(regex("^cr-[0-9a-f]{8,17}$", o.capacity_block)) && o.capacity_reservation == null && (contains(keys(var.shared_targets), name) || coalesce(o.purchasing, var.purchasing) == "on_demand")])
    error_message = "capacity_block is ${join(", ", [for type, o in var.target_overrides : "\"${o.capacity_block}\" for ${type}" if o.capacity_block != null])}; give the id (cr-…) of a Capacity Block for ML, without a capacity_reservation beside it, and only where purchasing is on_demand: a block is a purchase of its own."
  }

  validation {
    condition     = alltrue([for o in values(var.target_overrides) : o.spot_bid_percentage == null ? true : o.spot_bid_percentage >= 1 && o.spot_bid_percentage <= 100 && floor(o.spot_bid_percentage) == o.spot_bid_percentage && coalesce(o.purchasing, var.purchasing) != "on_demand"])
    error_message = "spot_bid_percentage is ${join(", ", [for type, o in var.target_overrides : "${o.spot_bid_percentage} for ${type}" if o.spot_bid_percentage != null])}; give a whole percentage of the On-Demand price from 1 to 100, and only where purchasing is spot_first or spot. Leave it out to pay what Spot costs, never more than On-Demand."
  }

  validation {
    condition     = alltrue([for o in values(var.target_overrides) : !contains(["ECS_AL2", "ECS_AL2_NVIDIA"], coalesce(o.image_type, "none"))])
    error_message = "image_type is ${join(", ", [for type, o in var.target_overrides : "${o.image_type} for ${type}" if o.image_type != null])}; Amazon Linux 2 can't be used: its support ended on 2026-06-30, and Batch blocks new compute environments on it. Use ECS_AL2023_NVIDIA for a GPU target and ECS_AL2023 for a CPU target, or leave image_type out."
  }

  validation {
    condition     = alltrue([for type, o in var.target_overrides : contains(["ECS_AL2", "ECS_AL2_NVIDIA", contains(local.gpu_targets, type) ? "ECS_AL2023_NVIDIA" : "ECS_AL2023"], o.image_type) if o.image_type != null])
    error_message = "image_type is ${join(", ", [for type, o in var.target_overrides : "${o.image_type} for ${type}" if o.image_type != null])}; a GPU target takes ECS_AL2023_NVIDIA, as ECS_AL2023 has no GPU driver, and a CPU target takes ECS_AL2023. Correct it, or leave it out."
  }

  validation {
    condition     = alltrue([for o in values(var.target_overrides) : o.image_id == null ? true : can(regex("^ami-[0-9a-f]{8,17}$", o.image_id))])
    error_message = "image_id is ${join(", ", [for type, o in var.target_overrides : "\"${o.image_id}\" for ${type}" if o.image_id != null])}; give the ID of an ECS-optimised Amazon Linux 2023 image, such as \"ami-0123456789abcdef0\", or leave it out for the one that all targets of its kind have."
  }

  validation {
    condition     = alltrue([for o in values(var.target_overrides) : o.volume_size_gib == null ? true : o.volume_size_gib >= 32 && o.volume_size_gib <= 16384 && floor(o.volume_size_gib) == o.volume_size_gib])
    error_message = "volume_size_gib is ${join(", ", [for type, o in var.target_overrides : "${o.volume_size_gib} for ${type}" if o.volume_size_gib != null])}; give a whole number from 32, which the GPU AMI and the job image need, to 16384, the largest gp3 volume."
  }

  validation {
    condition     = alltrue([for type, o in var.target_overrides : o.allow_cpu_fallback == true ? contains(local.gpu_targets, type) : true])
    error_message = "allow_cpu_fallback is set for ${join(", ", [for type, o in var.target_overrides : type if o.allow_cpu_fallback == true])}; only a GPU target can fall back to its CPU."
  }
}

# A typed object drops unknown attributes silently, so these are looked for in what was written.
variable "target_overrides_given" {
  description = "target_overrides as written, to refuse unknown settings"
  type        = any
  default     = {}

  validation {
    condition     = alltrue([for name, o in var.target_overrides_given : length(setsubtract(keys(o), keys(var.target_overrides[name]))) == 0])
    error_message = "target_overrides has ${join(", ", flatten([for name, o in var.target_overrides_given : [for key in setsubtract(keys(o), keys(var.target_overrides[name])) : replace("${key} for ${name} (${join(" or ", [for setting in keys(var.target_overrides[name]) : setting if startswith(setting, substr(key, 0, 3))])}?)", " (?)", "")]]))}, which no target has; correct the name. The settings of a target are ${join(", ", distinct(flatten([for o in values(var.target_overrides) : keys(o)])))}."
  }
}

variable "purchasing" {
  description = "How to buy instances"
  type        = string
  default     = "spot_first"

  validation {
    condition     = contains(["spot_first", "spot", "on_demand"], var.purchasing)
    error_message = "purchasing is \"${var.purchasing}\"; it is one of spot_first, spot and on_demand. How instances are picked follows from it: SPOT_PRICE_CAPACITY_OPTIMIZED for Spot, BEST_FIT_PROGRESSIVE for On-Demand."
  }
}

variable "max_vcpus" {
  description = "Most vCPUs of each compute environment"
  type        = number
  default     = 64

  validation {
    condition     = var.max_vcpus >= 1 && var.max_vcpus <= 10000 && floor(var.max_vcpus) == var.max_vcpus
    error_message = "max_vcpus is ${var.max_vcpus}; give a whole number from 1 to 10000."
  }
}

################################################################################
# Instances and limits
################################################################################

variable "volume_size_gib" {
  description = "Size of root volumes"
  type        = number
  default     = 64

  validation {
    condition     = var.volume_size_gib >= 32 && var.volume_size_gib <= 16384 && floor(var.volume_size_gib) == var.volume_size_gib
    error_message = "volume_size_gib is ${var.volume_size_gib}; give a whole number from 32, which the GPU AMI and the job image need, to 16384, the largest gp3 volume."
  }
}

variable "volume_throughput_mib_s" {
  description = "Throughput of root volumes"
  type        = number
  default     = 500

  validation {
    condition     = var.volume_throughput_mib_s >= 125 && var.volume_throughput_mib_s <= 1000 && floor(var.volume_throughput_mib_s) == var.volume_throughput_mib_s
    error_message = "volume_throughput_mib_s is ${var.volume_throughput_mib_s}; gp3 takes whole MiB/s from 125 to 1000."
  }

  validation {
    condition     = var.volume_throughput_mib_s * 4 <= var.volume_iops
    error_message = "volume_throughput_mib_s is ${var.volume_throughput_mib_s}, for which gp3 wants at least ${var.volume_throughput_mib_s * 4} IOPS, and volume_iops is ${var.volume_iops}. Raise volume_iops, or ask for less throughput."
  }
}

variable "volume_iops" {
  description = "IOPS of root volumes"
  type        = number
  default     = 3000

  validation {
    condition     = var.volume_iops >= 3000 && var.volume_iops <= 16000 && floor(var.volume_iops) == var.volume_iops
    error_message = "volume_iops is ${var.volume_iops}; gp3 takes whole numbers from 3000 to 16000."
  }
}

variable "ami_release" {
  description = "Each change takes the newest AMIs"
  type        = string
  default     = ""
}

variable "extra_user_data" {
  description = "Shell script that instances run at boot"
  type        = string
  default     = null

  validation {
    condition     = var.extra_user_data == null ? true : startswith(var.extra_user_data, "#!") && !strcontains(var.extra_user_data, "==BATCHMARK==") && length(var.extra_user_data) <= 8192
    error_message = "extra_user_data starts with \"${substr(coalesce(var.extra_user_data, "none"), 0, 24)}\" and has ${length(coalesce(var.extra_user_data, "none"))} characters; give a script that starts with #!, such as #!/bin/bash, of at most 8192 characters. It becomes a part of the MIME multipart document that Batch asks for, so write no MIME headers and no cloud-config yourself."
  }

  validation {
    condition     = !anytrue([for line in split("\n", coalesce(var.extra_user_data, "none")) : can(regex("^[^#]*(systemctl\\s[^;&|]*(start|--now)[^;&|]*\\secs(\\.service)?(\\s|[;&|]|$)|\\bservice\\s+ecs\\s+(re)?start|(^|[;&|]|initctl)\\s*(re)?start\\s+ecs\\b)", line))])
    error_message = "extra_user_data starts the ECS agent; leave that out. The agent waits for cloud-init to end, which waits for this script, so the instance would hang. It starts by itself afterwards."
  }

  validation {
    condition     = !anytrue([for line in split("\n", coalesce(var.extra_user_data, "none")) : can(regex("^[^#]*(systemctl\\s[^;&|]*start[^;&|]*\\sdocker(\\.service)?(\\s|[;&|]|$)|\\bservice\\s+docker\\s+(re)?start)", line)) && !strcontains(line, "--no-block")])
    error_message = "extra_user_data starts Docker and waits for it, which waits for cloud-init, which waits for this script. Write `systemctl restart docker --no-block`; on GPU targets leave it out, since Docker is restarted there anyway."
  }

  validation {
    condition     = !can(regex("[\"']runtimes\\\\?[\"']", coalesce(var.extra_user_data, "none")))
    error_message = "extra_user_data writes a \"runtimes\" key for Docker's daemon.json; leave it out. The GPU AMI registers the nvidia runtime itself, and Docker does not start when a second place names it. On GPU targets it is made the default already."
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

variable "log_retention_days" {
  description = "Days to keep job logs"
  type        = number
  default     = 90

  validation {
    condition     = contains([1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365, 400, 545, 731, 1096, 1827, 2192, 2557, 2922, 3288, 3653], var.log_retention_days)
    error_message = "log_retention_days is ${var.log_retention_days}; CloudWatch Logs takes 1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365, 400, 545, 731, 1096, 1827, 2192, 2557, 2922, 3288 or 3653."
  }
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

variable "instance_policy_arns" {
  description = "Further policies of the instances' role"
  type        = set(string)
  default     = []
}

variable "enable_session_manager" {
  description = "Allow shells by Session Manager"
  type        = bool
  default     = false
}

# Validations look at these.
locals {
  # By target: one that has its instances to itself is named after their type.
  instance_types = merge(
    { for type in setunion(var.gpu_instance_types, var.cpu_instance_types) : type => type },
    { for name, shared in var.shared_targets : name => shared.instance_type },
  )

  gpu_targets = setunion(var.gpu_instance_types, keys(var.shared_targets))

  # A copy of plugins/batchmark/aws/instance_families.json, which a test compares with it.
  families = jsondecode(file("${path.module}/instance_families.json"))

  # Why a family of GPU instances can't be used, and what to use instead.
  refused = { for family, facts in local.families.gpu_families : family => local.families.refusals[facts.refused] if can(facts.refused) }
}
