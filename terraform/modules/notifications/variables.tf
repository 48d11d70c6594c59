variable "name" {
  description = "Prefix of the topic, and of the rules and alarms that may publish"
  type        = string
}

variable "kms_key_arn" {
  description = "Key of the topic; none for no encryption"
  type        = string
  default     = null
}

variable "alert_emails" {
  description = "E-mail addresses to subscribe"
  type        = set(string)
  default     = []

  validation {
    condition     = alltrue([for address in var.alert_emails : can(regex("^[^@\\s]+@[^@\\s]+\\.[^@\\s]+$", address))])
    error_message = "alert_emails is ${jsonencode(var.alert_emails)}; each has to be an e-mail address."
  }
}
