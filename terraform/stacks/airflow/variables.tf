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

variable "tags" {
  description = "Further tags"
  type        = map(string)
  default     = {}

  validation {
    condition     = alltrue([for key, value in var.tags : can(regex("^[\\p{L}\\p{Z}\\p{N}_.:/=+@-]{1,128}$", key)) && !startswith(lower(key), "aws:") && can(regex("^[\\p{L}\\p{Z}\\p{N}_.:/=+@-]{0,256}$", value))])
    error_message = "tags is ${jsonencode(var.tags)}; AWS takes keys of 1 to 128 and values of up to 256 letters, digits, spaces and _.:/=+-@, and no key that starts with aws:."
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

variable "kms_key_arn" {
  description = "Key of environment, bucket and logs, for good; unlike the core stack's, its policy must admit MWAA, with kms:CreateGrant and through SQS"
  type        = string
  default     = null

  validation {
    condition     = var.kms_key_arn == null ? true : can(regex("^arn:[a-z-]+:kms:[a-z0-9-]+:[0-9]{12}:key/.+$", var.kms_key_arn))
    error_message = "kms_key_arn is \"${coalesce(var.kms_key_arn, "null")}\"; give a key's ARN, such as \"arn:aws:kms:us-east-1:111122223333:key/1234abcd-…\", not an alias."
  }
}

variable "permissions_boundary_arn" {
  description = "Permissions boundary of the role"
  type        = string
  default     = null

  validation {
    condition     = var.permissions_boundary_arn == null ? true : can(regex("^arn:[a-z-]+:iam::([0-9]{12}|aws):policy/.+$", var.permissions_boundary_arn))
    error_message = "permissions_boundary_arn is \"${coalesce(var.permissions_boundary_arn, "null")}\"; give a policy's ARN, such as \"arn:aws:iam::111122223333:policy/boundary\"."
  }
}

variable "iam_path" {
  description = "The core stack's iam_path, also for the role"
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
  description = "Two private subnets, with internet; empty for the core stack's"
  type        = set(string)
  default     = []

  validation {
    condition     = contains([0, 2], length(var.subnet_ids))
    error_message = "subnet_ids has ${length(var.subnet_ids)} subnets; MWAA takes two, or give none for the core stack's."
  }
}

variable "webserver_access_mode" {
  description = "PRIVATE_ONLY or PUBLIC_ONLY"
  type        = string
  default     = "PRIVATE_ONLY"

  validation {
    condition     = contains(["PRIVATE_ONLY", "PUBLIC_ONLY"], var.webserver_access_mode)
    error_message = "webserver_access_mode is \"${var.webserver_access_mode}\"; use PRIVATE_ONLY or PUBLIC_ONLY."
  }
}

variable "user_cidrs" {
  description = "Addresses that reach a private UI"
  type        = set(string)
  default     = []

  validation {
    condition     = alltrue([for cidr in var.user_cidrs : can(cidrnetmask(cidr)) && cidr != "0.0.0.0/0"])
    error_message = "user_cidrs is ${jsonencode(var.user_cidrs)}; give IPv4 ranges such as \"10.0.0.0/8\", and not the whole internet."
  }
}

################################################################################
# Environment
################################################################################

variable "airflow_version" {
  description = "A version that MWAA offers, such as 3.3.1; 3.2 or later"
  type        = string

  validation {
    condition     = can(regex("^[0-9]+\\.[0-9]+\\.[0-9]+$", var.airflow_version)) ? tonumber(split(".", var.airflow_version)[0]) * 1000 + tonumber(split(".", var.airflow_version)[1]) >= 3002 : false
    error_message = "airflow_version is \"${var.airflow_version}\"; the DAGs are for Airflow 3.3, and before 3.2 it lacks what they import, so give a version such as \"3.3.1\" from MWAA's list."
  }
}

variable "environment_class" {
  description = "Size of the environment"
  type        = string
  default     = "mw1.small"

  validation {
    condition     = contains(["mw1.micro", "mw1.small", "mw1.medium", "mw1.large", "mw1.xlarge", "mw1.2xlarge"], var.environment_class)
    error_message = "environment_class is \"${var.environment_class}\"; use mw1.micro, mw1.small, mw1.medium, mw1.large, mw1.xlarge or mw1.2xlarge."
  }
}

variable "max_workers" {
  description = "Most workers; waiting tasks hold none"
  type        = number
  default     = 1

  validation {
    condition     = var.max_workers >= 1 && var.max_workers <= 25 && floor(var.max_workers) == var.max_workers
    error_message = "max_workers is ${var.max_workers}; MWAA takes 1 to 25."
  }
}

variable "weekly_maintenance_window_start" {
  description = "When MWAA may restart it (day, UTC half hour)"
  type        = string
  default     = "SUN:03:30"

  validation {
    condition     = can(regex("^(MON|TUE|WED|THU|FRI|SAT|SUN):([01][0-9]|2[0-3]):(00|30)$", var.weekly_maintenance_window_start))
    error_message = "weekly_maintenance_window_start is \"${var.weekly_maintenance_window_start}\"; give a day and a half hour such as \"SUN:03:30\"."
  }
}

variable "airflow_configuration_options" {
  description = "Airflow options as section.option, over ours"
  type        = map(string)
  default     = {}

  validation {
    condition     = alltrue([for option in keys(var.airflow_configuration_options) : can(regex("^[a-z_]+\\.[a-z_]+$", option))])
    error_message = "airflow_configuration_options names ${join(", ", keys(var.airflow_configuration_options))}; write each as section.option, such as \"core.parallelism\"."
  }
}

################################################################################
# Code
################################################################################

variable "plugins_zip_path" {
  description = "The archive that make plugins-zip writes"
  type        = string
  default     = "../../../build/plugins.zip"

  validation {
    condition     = fileexists(var.plugins_zip_path)
    error_message = "plugins_zip_path is \"${var.plugins_zip_path}\", and there is no such file: make it first, see the README."
  }
}

################################################################################
# Logs
################################################################################

variable "log_level" {
  description = "Least level that Airflow's parts log"
  type        = string
  default     = "WARNING"

  validation {
    condition     = contains(["CRITICAL", "ERROR", "WARNING", "INFO", "DEBUG"], var.log_level)
    error_message = "log_level is \"${var.log_level}\"; use CRITICAL, ERROR, WARNING, INFO or DEBUG."
  }
}

variable "log_retention_days" {
  description = "Days to keep Airflow's logs"
  type        = number
  default     = 30

  validation {
    condition     = contains([1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365, 400, 545, 731, 1096, 1827, 2192, 2557, 2922, 3288, 3653], var.log_retention_days)
    error_message = "log_retention_days is ${var.log_retention_days}; CloudWatch Logs takes 1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365, 400, 545, 731, 1096, 1827, 2192, 2557, 2922, 3288 or 3653."
  }
}
