variable "name" {
  description = "Alias of the key"
  type        = string

  validation {
    condition     = can(regex("^[a-zA-Z0-9_-]{1,200}$", var.name))
    error_message = "name is \"${var.name}\"; use 1 to 200 letters, digits, hyphens and underscores, as an alias takes them."
  }
}

variable "deletion_window_days" {
  description = "Days from destroy until the key is gone, 7 to 30"
  type        = number
  default     = 30

  validation {
    condition     = var.deletion_window_days >= 7 && var.deletion_window_days <= 30 && floor(var.deletion_window_days) == var.deletion_window_days
    error_message = "deletion_window_days is ${var.deletion_window_days}; KMS takes whole days from 7 to 30."
  }
}
