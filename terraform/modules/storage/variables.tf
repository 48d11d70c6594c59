variable "bucket_name" {
  description = "Name of the result bucket, unique in all of S3"
  type        = string

  validation {
    condition     = can(regex("^[a-z0-9][a-z0-9-]{1,61}[a-z0-9]$", var.bucket_name))
    error_message = "bucket_name is \"${var.bucket_name}\"; use 3 to 63 lower-case letters, digits and hyphens, and no dots: they break TLS."
  }
}

variable "repository_name" {
  description = "The job image's ECR repository, if any"
  type        = string
  default     = null
}

variable "force_destroy" {
  description = "Let destroy delete bucket and repository with their content"
  type        = bool
  default     = false
}

variable "noncurrent_version_days" {
  description = "Days until old versions expire"
  type        = number
  default     = 30

  validation {
    condition     = var.noncurrent_version_days >= 1 && floor(var.noncurrent_version_days) == var.noncurrent_version_days
    error_message = "noncurrent_version_days is ${var.noncurrent_version_days}; give a whole number of days, at least 1."
  }
}

variable "images_kept" {
  description = "Images that the repository keeps"
  type        = number
  default     = 20

  validation {
    condition     = var.images_kept >= 1 && floor(var.images_kept) == var.images_kept
    error_message = "images_kept is ${var.images_kept}; give a whole number, at least 1."
  }
}

variable "kms_key_arn" {
  description = "Key of results and images; a change replaces the repository"
  type        = string
  default     = null
}
