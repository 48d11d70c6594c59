variable "name" {
  description = "Prefix of the budget's name, and the tag Project that it counts"
  type        = string
}

variable "monthly_limit_usd" {
  description = "What a month may cost"
  type        = number

  validation {
    condition     = var.monthly_limit_usd > 0
    error_message = "monthly_limit_usd is ${var.monthly_limit_usd}; it has to be above 0."
  }
}

variable "threshold_percent" {
  description = "Percent of the limit that sends an alert"
  type        = number
  default     = 80

  validation {
    condition     = var.threshold_percent >= 1 && var.threshold_percent <= 100
    error_message = "threshold_percent is ${var.threshold_percent}; it has to be 1 to 100."
  }
}

variable "topic_arn" {
  description = "Topic to tell; must let budgets.amazonaws.com publish"
  type        = string
}

variable "alert_emails" {
  description = "Up to 10 addresses that the budget e-mails"
  type        = set(string)
  default     = []

  validation {
    condition     = length(var.alert_emails) <= 10 && alltrue([for address in var.alert_emails : can(regex("^[^@\\s]+@[^@\\s]+\\.[^@\\s]+$", address))])
    error_message = "alert_emails is ${jsonencode(var.alert_emails)}; give up to 10 e-mail addresses."
  }
}
