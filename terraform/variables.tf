################################################################################
# General
################################################################################

variable "name" {
  description = "Name of this installation; prefix of everything it creates"
  type        = string
  default     = "batchmark"

  validation {
    condition     = can(regex("^[a-z][a-z0-9-]{1,18}[a-z0-9]$", var.name))
    error_message = "name is \"${var.name}\"; use 3 to 20 lower-case letters, digits and hyphens, starting with a letter and not ending with a hyphen (it becomes part of a bucket name)."
  }
}

variable "region" {
  description = "AWS region"
  type        = string
  default     = "us-east-1"

  validation {
    condition     = can(regex("^[a-z]{2}(-[a-z]+)+-[0-9]$", var.region))
    error_message = "region is \"${var.region}\"; give a region such as \"us-east-1\", not a zone."
  }
}

variable "tags" {
  description = "Tags on every resource, instance and volume, beside Project, ManagedBy and batchmark:installation"
  type        = map(string)
  default     = {}

  validation {
    condition     = alltrue([for key, value in var.tags : can(regex("^[\\p{L}\\p{Z}\\p{N}_.:/=+@-]{1,128}$", key)) && !startswith(lower(key), "aws:") && can(regex("^[\\p{L}\\p{Z}\\p{N}_.:/=+@-]{0,256}$", value))])
    error_message = "tags is ${jsonencode(var.tags)}; AWS takes keys of 1 to 128 and values of up to 256 letters, digits, spaces and _.:/=+-@, and no key that starts with aws:."
  }
}

variable "local_cloud" {
  description = "Apply to the local cloud (endpoint in AWS_ENDPOINT_URL) instead of AWS"
  type        = bool
  default     = false
}

################################################################################
# Network
################################################################################

variable "vpc_cidr" {
  description = "Address range of the VPC"
  type        = string
  default     = "10.42.0.0/16"
}

variable "availability_zones" {
  description = "Two to six zones to use; empty for the three that offer the most of the instance types"
  type        = set(string)
  default     = []
}

variable "existing_network" {
  description = "VPC, subnets and security groups of yours to run instances in; none for a VPC of their own. The subnets need a way to S3, ECR, ECS, CloudWatch and its logs, and the groups let HTTPS out"
  type = object({
    vpc_id             = string
    subnet_ids         = set(string)
    security_group_ids = set(string)
  })
  default = null

  validation {
    condition     = var.existing_network == null ? true : length(var.existing_network.subnet_ids) > 0 && length(var.existing_network.security_group_ids) > 0
    error_message = "existing_network is ${jsonencode(var.existing_network)}; name at least one subnet and one security group of ${try(var.existing_network.vpc_id, "the VPC")}."
  }

  validation {
    condition     = var.existing_network == null ? true : length(var.availability_zones) == 0 && !var.enable_nat_gateway && !var.enable_interface_endpoints && var.flow_log_retention_days == null
    error_message = "existing_network is set, so no network is made: leave out availability_zones, enable_nat_gateway, enable_interface_endpoints and flow_log_retention_days."
  }
}

variable "enable_nat_gateway" {
  description = "Run instances in private subnets behind a NAT gateway, which costs by the hour, instead of in public subnets without inbound rules"
  type        = bool
  default     = false
}

variable "enable_interface_endpoints" {
  description = "Run instances in private subnets that reach AWS through interface endpoints, which cost by the hour, and nothing else"
  type        = bool
  default     = false
}

variable "flow_log_retention_days" {
  description = "Days that the VPC's flow logs are kept; none for no flow logs"
  type        = number
  default     = null
}

################################################################################
# Guardrails
################################################################################

variable "permissions_boundary_arn" {
  description = "Permissions boundary of every role; none without"
  type        = string
  default     = null

  validation {
    condition     = var.permissions_boundary_arn == null ? true : can(regex("^arn:[a-z-]+:iam::([0-9]{12}|aws):policy/.+$", var.permissions_boundary_arn))
    error_message = "permissions_boundary_arn is \"${coalesce(var.permissions_boundary_arn, "null")}\"; give a policy's ARN, such as \"arn:aws:iam::111122223333:policy/boundary\"."
  }
}

variable "iam_path" {
  description = "Path of all roles, policies and instance profiles"
  type        = string
  default     = "/"

  validation {
    condition     = can(regex("^/([!-.0-~]+/)*$", var.iam_path))
    error_message = "iam_path is \"${var.iam_path}\"; start and end it with a slash, as in \"/research/\"."
  }
}

variable "instance_policy_arns" {
  description = "Further policies of the instances' role, such as those that your account's agents need"
  type        = set(string)
  default     = []

  validation {
    condition     = alltrue([for arn in var.instance_policy_arns : can(regex("^arn:[a-z-]+:iam::([0-9]{12}|aws):policy/.+$", arn))])
    error_message = "instance_policy_arns is ${jsonencode(var.instance_policy_arns)}; give ARNs of policies, such as \"arn:aws:iam::111122223333:policy/agents\"."
  }
}

variable "enable_session_manager" {
  description = "Let AWS Systems Manager's Session Manager open shells on instances, for which they need a way to its endpoints"
  type        = bool
  default     = false
}

################################################################################
# Encryption
################################################################################

variable "create_kms_key" {
  description = "Encrypt results, images, logs, alerts and volumes with a key of this account, which costs by the month, instead of AWS's own"
  type        = bool
  default     = false
}

################################################################################
# Storage
################################################################################

variable "force_destroy" {
  description = "Let terraform destroy delete the result bucket and the image repository with what is in them"
  type        = bool
  default     = false
}

variable "noncurrent_version_days" {
  description = "Days until an overwritten or deleted object's old version expires"
  type        = number
  default     = 30
}

variable "image_tag" {
  description = "Tag of the job image in the ECR repository, or its digest (sha256:...). Tags are immutable: a new image needs a new tag"
  type        = string
  default     = "0.2.0"

  validation {
    condition     = can(regex("^(sha256:[0-9a-f]{64}|[A-Za-z0-9_][A-Za-z0-9_.-]{0,127})$", var.image_tag))
    error_message = "image_tag is \"${var.image_tag}\"; give a tag such as \"0.2.0\" or a digest \"sha256:<64 hex digits>\"."
  }
}

variable "cpu_image_tag" {
  description = "Tag or digest of the slim job image, which CPU targets run; none for the same image as GPU targets. Set it together with image_tag"
  type        = string
  default     = null

  validation {
    condition     = var.cpu_image_tag == null || can(regex("^(sha256:[0-9a-f]{64}|[A-Za-z0-9_][A-Za-z0-9_.-]{0,127})$", var.cpu_image_tag))
    error_message = "cpu_image_tag is \"${coalesce(var.cpu_image_tag, "null")}\"; give a tag such as \"0.2.0-cpu\" or a digest \"sha256:<64 hex digits>\"."
  }
}

################################################################################
# Targets
################################################################################

variable "gpu_instance_types" {
  description = "GPU instance types to measure; each becomes a target with its own compute environments, queue and job definition"
  type        = set(string)
  default     = ["g4dn.xlarge", "g5.xlarge", "g6.xlarge"]
}

variable "cpu_instance_types" {
  description = "CPU instance types to measure against; each becomes a target"
  type        = set(string)
  default     = ["c5.2xlarge", "c5n.2xlarge", "m5.2xlarge"]
}

variable "shared_targets" {
  description = "Targets whose jobs share the one GPU of one instance, by names of their own: the instance type, how they share it (time_slicing or mps), and how many jobs there may be at once"
  type = map(object({
    instance_type = string
    mode          = string
    max_replicas  = number
  }))
  default = {}
}

variable "target_overrides" {
  description = "Settings per target, keyed by its name, instead of those derived from the instance type; modules/batch has the list"
  type        = any
  default     = {}

  validation {
    condition     = can([for target in var.target_overrides : keys(target)])
    error_message = "target_overrides has ${try(join(", ", [for name, target in var.target_overrides : name if !can(keys(target))]), "no names")} without fields; give an object for each name, such as { \"g5.xlarge\" = { max_vcpus = 8 } }."
  }
}

variable "purchasing" {
  description = "How targets buy their instances: spot_first (Spot, On-Demand where there is none to be had), spot or on_demand alone"
  type        = string
  default     = "spot_first"
}

variable "max_vcpus" {
  description = "Most vCPUs that each compute environment may run at a time; a target has one for Spot and one for On-Demand, and Batch may exceed it by one instance"
  type        = number
  default     = 64
}

variable "volume_size_gib" {
  description = "Size of each instance's root volume in GiB; the GPU AMI alone takes 30"
  type        = number
  default     = 64
}

variable "volume_throughput_mib_s" {
  description = "Throughput of each instance's root volume in MiB/s, of which gp3 includes 125: a slow volume makes a cold start measure the disk"
  type        = number
  default     = 500
}

variable "volume_iops" {
  description = "I/O operations a second of each instance's root volume, of which gp3 includes 3000"
  type        = number
  default     = 3000
}

variable "ami_release" {
  description = "Any text, such as a date: the hosts' AMIs are the newest of the apply in which it last changed. So they stay until you ask for newer ones, and results tell a new AMI from a change of what you measure"
  type        = string
  default     = ""
}

variable "extra_user_data" {
  description = "Shell script that instances run at boot, as root, before they are made ready for jobs; a host takes jobs even where it failed, unless it broke what a job needs"
  type        = string
  default     = null
}

variable "runnable_timeout_seconds" {
  description = "Seconds until a job that can't be placed is cancelled with its reason"
  type        = number
  default     = 1800
}

variable "log_retention_days" {
  description = "Days that logs and events of jobs are kept"
  type        = number
  default     = 90
}

variable "history_first_month" {
  description = "First month of the history that Athena queries, as yyyy-MM; set it back where you import older results"
  type        = string
  default     = "2026-01"
}

variable "suites" {
  description = "Suites whose history Athena queries; add your own, or its history is left out"
  type        = set(string)
  default     = ["blog", "building_blocks", "own", "precision", "sam", "scaling", "sharing", "smoke", "training"]
}

################################################################################
# Own jobs
################################################################################

variable "own_jobs" {
  description = "Jobs that exist already, by name: image (or one for each device) and command, and what they ask for; each is measured on its targets as it is; docs/own-jobs.md has the fields"
  type        = any
  default     = {}

  validation {
    condition     = can([for job in var.own_jobs : keys(job)])
    error_message = "own_jobs has ${try(join(", ", [for name, job in var.own_jobs : name if !can(keys(job))]), "no names")} without fields; give an object for each name, such as { convert = { image = \"converter:3\", command = [\"convert\"] } }."
  }
}

variable "comparison_access" {
  description = "Queues, job definitions and log groups that were not made here, and that Airflow may compare jobs in; none for no such jobs"
  type        = any
  default     = null

  validation {
    condition     = var.comparison_access == null ? true : toset(concat(["log_group_names"], keys(var.comparison_access))) == toset(["job_definition_arns", "job_queue_arns", "log_group_names"])
    error_message = "comparison_access has ${join(", ", try(keys(var.comparison_access), []))}; give job_queue_arns and job_definition_arns, and log_group_names unless it is /aws/batch/job alone."
  }
}

################################################################################
# Airflow
################################################################################

variable "airflow_external_id" {
  description = "External id that airflow_principal_arns have to give, for an Airflow that a third party runs; none for no id"
  type        = string
  default     = null
}

variable "airflow_principal_arns" {
  description = "Roles or users that may act as Airflow's role here; empty for no role, only the policies to attach to one of yours"
  type        = set(string)
  default     = []
}

variable "airflow_variables_prefix" {
  description = "The variables_prefix of the secrets backend of the Airflow that uses this installation; two installations in one region need two"
  type        = string
  default     = "/airflow/variables"

  validation {
    condition     = can(regex("^(/[A-Za-z0-9_.-]+)+$", var.airflow_variables_prefix))
    error_message = "airflow_variables_prefix is \"${var.airflow_variables_prefix}\"; start it with a slash and end it without one, as in \"/airflow/variables\"."
  }
}

################################################################################
# Notifications
################################################################################

variable "alert_emails" {
  description = "E-mail addresses that get alerts; each has to confirm its subscription"
  type        = set(string)
  default     = []
}

################################################################################
# Cost
################################################################################

variable "monthly_budget_usd" {
  description = "AWS Budget in USD a month over everything tagged with this installation's name; none for no budget"
  type        = number
  default     = 100
}

variable "monthly_cap_usd" {
  description = "Most in USD that the benchmark runs of a calendar month may cost: Airflow submits no run that could exceed it; none for no cap"
  type        = number
  default     = null

  validation {
    condition     = var.monthly_cap_usd == null ? true : var.monthly_cap_usd > 0
    error_message = "monthly_cap_usd is ${coalesce(var.monthly_cap_usd, 0)}; it has to be above 0, or null for no cap."
  }
}

variable "budget_alert_percent" {
  description = "Share of the budget, in percent, whose spending sends an alert"
  type        = number
  default     = 80
}

variable "idle_alarm_minutes" {
  description = "Minutes that instances may run without a job before an alarm; none for no alarm"
  type        = number
  default     = 30
}

variable "launches_per_hour_alarm" {
  description = "Instances launched for one compute environment within an hour that raise an alarm, because those that never join ECS are replaced unseen; none for no alarm"
  type        = number
  default     = 4
}
