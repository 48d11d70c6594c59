variable "name" {
  description = "Prefix of the policy and the role"
  type        = string
}

################################################################################
# What Airflow may use
################################################################################

variable "job_queue_arns" {
  description = "Queues to submit jobs to"
  type        = set(string)

  validation {
    condition     = length(var.job_queue_arns) > 0
    error_message = "job_queue_arns is empty; Airflow needs at least one queue."
  }

  validation {
    condition     = alltrue([for arn in var.job_queue_arns : can(regex("^arn:aws[a-z-]*:batch:[a-z0-9-]+:[0-9]{12}:job-queue/[A-Za-z0-9_-]+$", arn))])
    error_message = "job_queue_arns is ${jsonencode(var.job_queue_arns)}; give each as \"arn:aws:batch:us-east-1:111122223333:job-queue/NAME\"."
  }
}

variable "job_definition_arns" {
  description = "Job definitions to submit, in any revision"
  type        = set(string)

  validation {
    condition     = length(var.job_definition_arns) > 0
    error_message = "job_definition_arns is empty; Airflow needs at least one job definition."
  }

  validation {
    condition     = alltrue([for arn in var.job_definition_arns : can(regex("^arn:aws[a-z-]*:batch:[a-z0-9-]+:[0-9]{12}:job-definition/[A-Za-z0-9_-]+([*]|:[0-9]+)?$", arn))])
    error_message = "job_definition_arns is ${jsonencode(var.job_definition_arns)}; give each as \"arn:aws:batch:us-east-1:111122223333:job-definition/NAME\", with its revision or without, or NAME* for all whose name begins so."
  }
}

variable "log_group_names" {
  description = "Log groups of the jobs"
  type        = set(string)

  validation {
    condition     = length(var.log_group_names) > 0
    error_message = "log_group_names is empty; give the log group that the jobs write to, such as \"/aws/batch/job\"."
  }

  validation {
    condition     = alltrue([for name in var.log_group_names : can(regex("^[A-Za-z0-9._/#-]{1,512}$", name))])
    error_message = "log_group_names is ${jsonencode(var.log_group_names)}; give names, such as \"/aws/batch/job\", no ARNs and no wildcards."
  }
}

variable "events_log_group_name" {
  description = "Log group of job state changes"
  type        = string
  default     = null
}

variable "foreign_queues" {
  description = "Look at all Batch hosts, for others' queues"
  type        = bool
  default     = false
}

variable "bucket_arn" {
  description = "Result bucket"
  type        = string
}

variable "ecr_repository_arns" {
  description = "Job images' repositories, for the environment check"
  type        = set(string)
  default     = []
}

variable "role_arns" {
  description = "Job roles, for the environment check"
  type        = set(string)
  default     = []
}

variable "instance_profile_arn" {
  description = "Hosts' profile, for the environment check"
  type        = string
  default     = null
}

variable "ssm_parameter_arn" {
  description = "Parameter that Airflow reads, and the same with _alerts"
  type        = string
}

variable "topic_arn" {
  description = "Topic of the alerts"
  type        = string
  default     = null
}

variable "kms_key_arn" {
  description = "Key of bucket and topic"
  type        = string
  default     = null
}

################################################################################
# Who may be Airflow
################################################################################

variable "principal_arns" {
  description = "Who may assume Airflow's role"
  type        = set(string)
  default     = []

  validation {
    condition     = alltrue([for arn in var.principal_arns : can(regex("^arn:aws[a-z-]*:iam::[0-9]{12}:(role|user)/[^*?]+$", arn))])
    error_message = "principal_arns is ${jsonencode(var.principal_arns)}; each has to be the ARN of one role or user, such as \"arn:aws:iam::111122223333:role/airflow\", without wildcards."
  }
}

variable "external_id" {
  description = "External id that principal_arns must give"
  type        = string
  default     = null

  validation {
    condition     = var.external_id == null ? true : length(var.external_id) <= 1224 && can(regex("^[\\w+=,.@:/-]{2,}$", var.external_id))
    error_message = "external_id is \"${coalesce(var.external_id, "null")}\"; give 2 to 1224 letters, digits and + = , . @ : / - _."
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
