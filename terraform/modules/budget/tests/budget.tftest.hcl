mock_provider "aws" {
  override_during = plan
}

variables {
  name              = "lab"
  monthly_limit_usd = 50
  topic_arn         = "arn:aws:sns:us-east-1:111122223333:lab-alerts"
}

run "budget" {
  command = plan

  assert {
    condition     = "${aws_budgets_budget.this.name} ${aws_budgets_budget.this.budget_type} ${aws_budgets_budget.this.time_unit} ${aws_budgets_budget.this.limit_amount} ${aws_budgets_budget.this.limit_unit}" == "lab-monthly COST MONTHLY 50 USD"
    error_message = "the budget is one of costs, by month, in US dollars"
  }

  assert {
    condition     = { for filter in aws_budgets_budget.this.cost_filter : filter.name => filter.values } == { TagKeyValue = tolist(["user:Project$lab"]) }
    error_message = "only what is tagged Project=lab counts"
  }

  assert {
    condition     = { for notification in aws_budgets_budget.this.notification : notification.notification_type => notification.threshold } == { ACTUAL = 80, FORECASTED = 100 }
    error_message = "actual costs are told at 80 %, forecast ones at 100 %"
  }

  assert {
    condition = alltrue([
      for notification in aws_budgets_budget.this.notification :
      notification.subscriber_sns_topic_arns == toset([var.topic_arn]) && notification.threshold_type == "PERCENTAGE"
    ])
    error_message = "the topic is told"
  }
}

run "settings" {
  command = plan

  variables {
    threshold_percent = 50
    alert_emails      = ["finance@example.com"]
  }

  assert {
    condition = [
      for notification in aws_budgets_budget.this.notification : notification.threshold if notification.notification_type == "ACTUAL"
    ] == [50]
    error_message = "the threshold can be set"
  }

  assert {
    condition     = alltrue([for notification in aws_budgets_budget.this.notification : notification.subscriber_email_addresses == toset(["finance@example.com"])])
    error_message = "addresses are told too"
  }
}

run "refuses_no_limit" {
  command = plan

  variables {
    monthly_limit_usd = 0
  }

  expect_failures = [var.monthly_limit_usd]
}

run "refuses_a_threshold_above_the_limit" {
  command = plan

  variables {
    threshold_percent = 120
  }

  expect_failures = [var.threshold_percent]
}

run "refuses_what_is_no_address" {
  command = plan

  variables {
    alert_emails = ["finance"]
  }

  expect_failures = [var.alert_emails]
}
