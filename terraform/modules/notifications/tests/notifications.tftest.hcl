mock_provider "aws" {
  override_during = plan

  mock_resource "aws_sns_topic" {
    defaults = { arn = "arn:aws:sns:us-east-1:111122223333:alerts" }
  }

  mock_data "aws_caller_identity" {
    defaults = { account_id = "111122223333" }
  }

  mock_data "aws_partition" {
    defaults = { partition = "aws" }
  }

  mock_data "aws_iam_policy_document" {
    defaults = { json = "{\"Version\":\"2012-10-17\",\"Statement\":[]}" }
  }
}

variables {
  name = "alerts"
}

run "topic" {
  command = plan

  assert {
    condition     = aws_sns_topic.this.kms_master_key_id == "alias/aws/sns" && length(aws_sns_topic_subscription.email) == 0
    error_message = "the topic is encrypted and has no subscriber by default"
  }

  assert {
    condition     = one(data.aws_iam_policy_document.topic.statement[0].principals).identifiers == toset(["arn:aws:iam::111122223333:root"])
    error_message = "only the own account is let in"
  }

  assert {
    condition     = data.aws_iam_policy_document.topic.statement[1].effect == "Deny" && one(data.aws_iam_policy_document.topic.statement[1].condition).variable == "aws:SecureTransport"
    error_message = "publishing takes TLS"
  }
}

run "emails" {
  command = plan

  variables {
    alert_emails = ["ops@example.com", "team@example.com"]
  }

  assert {
    condition     = [for address, subscription in aws_sns_topic_subscription.email : "${subscription.protocol} ${subscription.endpoint}"] == ["email ops@example.com", "email team@example.com"]
    error_message = "each address is subscribed"
  }
}

run "refuses_what_is_no_address" {
  command = plan

  variables {
    alert_emails = ["ops"]
  }

  expect_failures = [var.alert_emails]
}
