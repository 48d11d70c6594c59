variable "name" {
  description = "Name of the dashboard, prefix of everything else"
  type        = string
}

variable "topic_arn" {
  description = "Topic to tell; must let EventBridge and CloudWatch alarms publish"
  type        = string
}

variable "kms_key_arn" {
  description = "Key of the log group of events"
  type        = string
  default     = null
}

variable "event_log_group_name" {
  description = "Another installation's log group of events, whose name this one's begins with"
  type        = string
  default     = null
}

################################################################################
# What is watched
################################################################################

variable "job_queue_arns" {
  description = "Queues to watch; about 20 fit into an event pattern"
  type        = list(string)

  validation {
    condition     = length(var.job_queue_arns) > 0
    error_message = "job_queue_arns is empty, and an event pattern without queues is refused. Give at least one."
  }
}

variable "ecs_cluster_names" {
  description = "ECS clusters by display name; each gets an alarm"
  type        = map(string)
  default     = {}
}

variable "compute_environment_prefixes" {
  description = "Compute environments' name prefixes; each gets a rule and an alarm on launches"
  type        = map(string)
  default     = {}
}

variable "target_names" {
  description = "Targets on the dashboard"
  type        = list(string)
  default     = []
}

variable "metrics_namespace" {
  description = "CloudWatch namespace, one per stack"
  type        = string
  default     = "Batchmark"

  validation {
    condition     = can(regex("^[A-Za-z0-9._/#-]{1,255}$", var.metrics_namespace)) && !startswith(var.metrics_namespace, "AWS/")
    error_message = "metrics_namespace is ${jsonencode(var.metrics_namespace)}; it may have up to 255 letters, digits and ._/#-, and AWS/ is AWS's own."
  }
}

################################################################################
# How it is watched
################################################################################

variable "notices" {
  description = "Events that are told"
  type        = set(string)
  default     = ["job_failed", "queue_blocked", "spot_interruption"]

  validation {
    condition     = alltrue([for notice in var.notices : contains(["job_failed", "queue_blocked", "spot_interruption"], notice)])
    error_message = "notices is ${jsonencode(var.notices)}; take from job_failed, queue_blocked and spot_interruption."
  }
}

variable "launches_per_hour" {
  description = "Hourly launches that raise an alarm"
  type        = number
  default     = 4

  validation {
    condition     = var.launches_per_hour >= 1 && floor(var.launches_per_hour) == var.launches_per_hour
    error_message = "launches_per_hour is ${var.launches_per_hour}; give a whole number from 1."
  }
}

variable "idle_minutes" {
  description = "Minutes without a job until the alarm; a multiple of 5"
  type        = number
  default     = 30

  validation {
    condition     = var.idle_minutes >= 10 && var.idle_minutes <= 1440 && var.idle_minutes % 5 == 0
    error_message = "idle_minutes is ${var.idle_minutes}; it has to be a multiple of 5 from 10 to 1440."
  }
}

variable "log_retention_days" {
  description = "Days to keep events"
  type        = number
  default     = 30

  validation {
    condition     = contains([1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365, 400, 545, 731, 1096, 1827, 2192, 2557, 2922, 3288, 3653], var.log_retention_days)
    error_message = "log_retention_days is ${var.log_retention_days}; CloudWatch Logs takes 1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365, 400, 545, 731, 1096, 1827, 2192, 2557, 2922, 3288 or 3653."
  }
}
