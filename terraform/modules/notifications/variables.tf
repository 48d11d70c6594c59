variable "name" {
  description = "Name of the topic"
  type        = string
}

variable "kms_key_id" {
  description = "Key that encrypts the topic. AWS's own key is free, but EventBridge, alarms and budgets can't publish under it"
  type        = string
  default     = "alias/aws/sns"
}

variable "alert_emails" {
  description = "E-mail addresses to subscribe; each has to confirm"
  type        = set(string)
  default     = []

  validation {
    condition     = alltrue([for address in var.alert_emails : can(regex("^[^@\\s]+@[^@\\s]+\\.[^@\\s]+$", address))])
    error_message = "alert_emails is ${jsonencode(var.alert_emails)}; each has to be an e-mail address."
  }
}
