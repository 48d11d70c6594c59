variable "name" {
  description = "Name of workgroup, queries and (with underscores) Glue database"
  type        = string

  validation {
    condition     = can(regex("^[a-z][a-z0-9_-]*$", var.name))
    error_message = "name is \"${var.name}\"; start with a letter and use lower-case letters, digits, hyphens and underscores: Glue folds capitals."
  }
}

variable "bucket_name" {
  description = "Bucket of history/ and athena-results/"
  type        = string
}

variable "suites" {
  description = "Suites to query; others are silently left out"
  type        = set(string)
  default     = ["blog", "building_blocks", "own", "precision", "sam", "scaling", "sharing", "smoke", "training"]

  validation {
    condition     = length(var.suites) > 0 && alltrue([for suite in var.suites : can(regex("^[a-z0-9][a-z0-9_-]*$", suite))])
    error_message = "suites is ${jsonencode(var.suites)}; name at least one, each in lower-case letters, digits, hyphens and underscores: they become folders and a list with commas."
  }
}

variable "first_month" {
  description = "First month to query (yyyy-MM)"
  type        = string
  default     = "2026-01"

  validation {
    condition     = can(regex("^20[0-9]{2}-(0[1-9]|1[0-2])$", var.first_month))
    error_message = "first_month is \"${var.first_month}\"; give a year and a month such as \"2026-01\"."
  }
}

variable "bytes_scanned_cutoff_per_query" {
  description = "Bytes after which a query is cancelled"
  type        = number
  default     = 1073741824

  validation {
    condition     = var.bytes_scanned_cutoff_per_query >= 10485760 && floor(var.bytes_scanned_cutoff_per_query) == var.bytes_scanned_cutoff_per_query
    error_message = "bytes_scanned_cutoff_per_query is ${var.bytes_scanned_cutoff_per_query}; give whole bytes from 10485760 (10 MiB), the least Athena takes."
  }
}

variable "force_destroy" {
  description = "Let destroy delete others' queries and logs"
  type        = bool
  default     = false
}

variable "kms_key_arn" {
  description = "Key of query results"
  type        = string
  default     = null
}
