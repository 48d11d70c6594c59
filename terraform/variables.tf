################################################################################
# General
################################################################################

variable "name" {
  description = "Name of this installation, prefix of all names"
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
  description = "Tags on everything, beside Project, ManagedBy and batchmark:installation"
  type        = map(string)
  default     = {}

  validation {
    condition     = alltrue([for key, value in var.tags : can(regex("^[\\p{L}\\p{Z}\\p{N}_.:/=+@-]{1,128}$", key)) && !startswith(lower(key), "aws:") && can(regex("^[\\p{L}\\p{Z}\\p{N}_.:/=+@-]{0,256}$", value))])
    error_message = "tags is ${jsonencode(var.tags)}; AWS takes keys of 1 to 128 and values of up to 256 letters, digits, spaces and _.:/=+-@, and no key that starts with aws:."
  }
}

variable "local_cloud" {
  description = "Apply to the local cloud (AWS_ENDPOINT_URL)"
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
  description = "Two to six zones; empty for three with the most instance types"
  type        = set(string)
  default     = []
}

variable "existing_network" {
  description = "Your VPC, subnets that reach S3, ECR, ECS, CloudWatch and its logs, and security groups that let HTTPS out"
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
  description = "Private subnets behind a NAT gateway, which costs by the hour"
  type        = bool
  default     = false
}

variable "enable_interface_endpoints" {
  description = "Private subnets that reach only AWS, by endpoints that cost by the hour"
  type        = bool
  default     = false
}

variable "flow_log_retention_days" {
  description = "Days to keep the VPC's flow logs"
  type        = number
  default     = null
}

################################################################################
# Guardrails
################################################################################

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
  description = "Path of all roles, policies and profiles"
  type        = string
  default     = "/"

  validation {
    condition     = can(regex("^/([!-.0-~]+/)*$", var.iam_path))
    error_message = "iam_path is \"${var.iam_path}\"; start and end it with a slash, as in \"/research/\"."
  }
}

variable "instance_policy_arns" {
  description = "Further policies of the instances' role"
  type        = set(string)
  default     = []

  validation {
    condition     = alltrue([for arn in var.instance_policy_arns : can(regex("^arn:[a-z-]+:iam::([0-9]{12}|aws):policy/.+$", arn))])
    error_message = "instance_policy_arns is ${jsonencode(var.instance_policy_arns)}; give ARNs of policies, such as \"arn:aws:iam::111122223333:policy/agents\"."
  }
}

variable "enable_session_manager" {
  description = "Allow shells by Session Manager, if instances reach its endpoints"
  type        = bool
  default     = false
}

################################################################################
# Encryption
################################################################################

variable "create_kms_key" {
  description = "Encrypt with a key of your own, which costs by the month"
  type        = bool
  default     = false
}

################################################################################
# Storage
################################################################################

variable "force_destroy" {
  description = "Let destroy delete bucket and image repository with their content"
  type        = bool
  default     = false
}

variable "noncurrent_version_days" {
  description = "Days until objects' old versions expire"
  type        = number
  default     = 30
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

variable "cpu_image_tag" {
  description = "Tag or digest of the slim job image for CPU targets"
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
  description = "GPU instance types, each a target"
  type        = set(string)
  default     = ["g4dn.xlarge", "g5.xlarge", "g6.xlarge"]
}

variable "cpu_instance_types" {
  description = "CPU instance types, each a target"
  type        = set(string)
  default     = ["c5.2xlarge", "c5n.2xlarge", "m5.2xlarge"]
}

variable "shared_targets" {
  description = "Targets whose jobs share a GPU: instance type, mode (time_slicing or mps), most jobs"
  type = map(object({
    instance_type = string
    mode          = string
    max_replicas  = number
  }))
  default = {}
}

variable "target_overrides" {
  description = "Settings of single targets; modules/batch has the list"
  type        = any
  default     = {}

  validation {
    condition     = can([for target in var.target_overrides : keys(target)])
    error_message = "target_overrides has ${try(join(", ", [for name, target in var.target_overrides : name if !can(keys(target))]), "no names")} without fields; give an object for each name, such as { \"g5.xlarge\" = { max_vcpus = 8 } }."
  }
}

variable "purchasing" {
  description = "How to buy instances: spot_first (else On-Demand), spot or on_demand"
  type        = string
  default     = "spot_first"
}

variable "max_vcpus" {
  description = "Most vCPUs of each compute environment; Batch may exceed it by one instance"
  type        = number
  default     = 64
}

variable "volume_size_gib" {
  description = "Size of root volumes; the GPU AMI takes 30"
  type        = number
  default     = 64
}

variable "volume_throughput_mib_s" {
  description = "Throughput of root volumes (gp3 includes 125); slow ones dominate cold starts"
  type        = number
  default     = 500
}

variable "volume_iops" {
  description = "IOPS of root volumes (gp3 includes 3000)"
  type        = number
  default     = 3000
}

variable "ami_release" {
  description = "Any text, such as a date; each change takes the newest AMIs"
  type        = string
  default     = ""
}

variable "extra_user_data" {
  description = "Shell script that instances run as root at boot"
  type        = string
  default     = null
}

variable "runnable_timeout_seconds" {
  description = "Seconds until a stuck job is cancelled"
  type        = number
  default     = 1800
}

variable "log_retention_days" {
  description = "Days to keep logs and events of jobs"
  type        = number
  default     = 90
}

variable "history_first_month" {
  description = "First month that Athena queries (yyyy-MM)"
  type        = string
  default     = "2026-01"
}

variable "suites" {
  description = "Suites that Athena queries; add your own"
  type        = set(string)
  default     = ["blog", "building_blocks", "own", "precision", "sam", "scaling", "sharing", "smoke", "training"]
}

################################################################################
# Your own jobs
################################################################################

variable "own_jobs" {
  description = "Your own jobs (docs/own-jobs.md)"
  type        = any
  default     = {}

  validation {
    condition     = can([for job in var.own_jobs : keys(job)])
    error_message = "own_jobs has ${try(join(", ", [for name, job in var.own_jobs : name if !can(keys(job))]), "no names")} without fields; give an object for each name, such as { convert = { image = \"converter:3\", command = [\"convert\"] } }."
  }
}

variable "comparison_access" {
  description = "Your queues, job definitions and log groups to compare jobs in"
  type        = map(set(string))
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
  description = "External id that a third party's Airflow must give"
  type        = string
  default     = null
}

variable "airflow_principal_arns" {
  description = "Who may assume Airflow's role; empty for policies alone"
  type        = set(string)
  default     = []
}

variable "airflow_variables_prefix" {
  description = "Airflow's variables_prefix; two installations in a region need two"
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
  description = "Addresses that get alerts, once each has confirmed"
  type        = set(string)
  default     = []
}

################################################################################
# Cost
################################################################################

variable "monthly_budget_usd" {
  description = "Monthly AWS Budget over everything tagged with the name"
  type        = number
  default     = 100
}

variable "monthly_cap_usd" {
  description = "Cap on a calendar month's runs: Airflow submits none that could exceed it"
  type        = number
  default     = null

  validation {
    condition     = var.monthly_cap_usd == null ? true : var.monthly_cap_usd > 0
    error_message = "monthly_cap_usd is ${coalesce(var.monthly_cap_usd, 0)}; it has to be above 0, or null for no cap."
  }
}

variable "budget_alert_percent" {
  description = "Percent of the budget that sends an alert"
  type        = number
  default     = 80
}

variable "idle_alarm_minutes" {
  description = "Minutes that instances may run without a job"
  type        = number
  default     = 30
}

variable "launches_per_hour_alarm" {
  description = "Hourly launches of a compute environment that raise an alarm"
  type        = number
  default     = 4
}
