################################################################################
# General
################################################################################

variable "name" {
  description = "Name of this installation: prefix of all names, tag of its jobs"
  type        = string
  default     = "batchmark"

  validation {
    condition     = can(regex("^[a-z][a-z0-9-]{1,18}[a-z0-9]$", var.name))
    error_message = "name is \"${var.name}\"; use 3 to 20 lower-case letters, digits and hyphens, starting with a letter and not ending with a hyphen (it becomes part of a bucket name)."
  }
}

variable "region" {
  description = "AWS region of the queues"
  type        = string
  default     = "us-east-1"

  validation {
    condition     = can(regex("^[a-z]{2}(-[a-z]+)+-[0-9]$", var.region))
    error_message = "region is \"${var.region}\"; give a region such as \"us-east-1\", not a zone."
  }
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

variable "local_cloud" {
  description = "Apply to the local cloud (AWS_ENDPOINT_URL)"
  type        = bool
  default     = false
}

################################################################################
# What is compared
################################################################################

variable "job_queue_arns" {
  description = "Queues that Airflow may submit to"
  type        = set(string)

  validation {
    condition     = alltrue([for arn in var.job_queue_arns : can(regex("^arn:[^:]+:batch:${var.region}:", arn))])
    error_message = "job_queue_arns is ${jsonencode(var.job_queue_arns)}; they have to be in region ${var.region}, as the results are."
  }
}

variable "job_definition_arns" {
  description = "Job definitions that Airflow may submit; NAME* for all that begin so"
  type        = set(string)

  validation {
    condition     = alltrue([for arn in var.job_definition_arns : can(regex("^arn:[^:]+:batch:${var.region}:", arn))])
    error_message = "job_definition_arns is ${jsonencode(var.job_definition_arns)}; they have to be in region ${var.region}, as the results are."
  }
}

variable "log_group_names" {
  description = "Log groups of the jobs"
  type        = set(string)
  default     = ["/aws/batch/job"]
}

variable "monthly_cap_usd" {
  description = "Cap on a calendar month's runs"
  type        = number
  default     = null

  validation {
    condition     = var.monthly_cap_usd == null ? true : var.monthly_cap_usd > 0
    error_message = "monthly_cap_usd is ${coalesce(var.monthly_cap_usd, 0)}; it has to be above 0, or null for no cap."
  }
}

variable "force_destroy" {
  description = "Let destroy delete the result bucket with its content"
  type        = bool
  default     = false
}

################################################################################
# Airflow
################################################################################

variable "airflow_principal_arns" {
  description = "Who may assume Airflow's role; empty for policies alone"
  type        = set(string)
  default     = []
}

variable "airflow_external_id" {
  description = "External id that a third party's Airflow must give"
  type        = string
  default     = null
}

variable "airflow_variables_prefix" {
  description = "Airflow's variables_prefix"
  type        = string
  default     = "/airflow/variables"

  validation {
    condition     = can(regex("^(/[A-Za-z0-9_.-]+)+$", var.airflow_variables_prefix))
    error_message = "airflow_variables_prefix is \"${var.airflow_variables_prefix}\"; start it with a slash and end it without one, as in \"/airflow/variables\"."
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
