resource "aws_budgets_budget" "this" {
  name         = "${var.name}-monthly"
  budget_type  = "COST"
  time_unit    = "MONTHLY"
  limit_amount = tostring(var.monthly_limit_usd)
  limit_unit   = "USD"

  # format(), because in a string a dollar before a brace is Terraform's own.
  cost_filter {
    name   = "TagKeyValue"
    values = [format("user:Project$%s", var.name)]
  }

  notification {
    notification_type          = "ACTUAL"
    comparison_operator        = "GREATER_THAN"
    threshold                  = var.threshold_percent
    threshold_type             = "PERCENTAGE"
    subscriber_sns_topic_arns  = [var.topic_arn]
    subscriber_email_addresses = var.alert_emails
  }

  notification {
    notification_type          = "FORECASTED"
    comparison_operator        = "GREATER_THAN"
    threshold                  = 100
    threshold_type             = "PERCENTAGE"
    subscriber_sns_topic_arns  = [var.topic_arn]
    subscriber_email_addresses = var.alert_emails
  }
}
