mock_provider "aws" {
  override_during = plan

  mock_resource "aws_sns_topic" {
    defaults = { arn = "arn:aws:sns:us-east-1:111122223333:lab-alerts" }
  }

  mock_data "aws_caller_identity" {
    defaults = { account_id = "111122223333" }
  }

  mock_data "aws_region" {
    defaults = { name = "us-east-1" }
  }

  mock_data "aws_partition" {
    defaults = { partition = "aws" }
  }

  mock_data "aws_iam_policy_document" {
    defaults = { json = "{\"Version\":\"2012-10-17\",\"Statement\":[]}" }
  }
}

variables {
  name = "lab"
}

run "topic" {
  command = plan

  assert {
    condition     = aws_sns_topic.this.name == "lab-alerts" && aws_sns_topic.this.kms_master_key_id == null && length(aws_sns_topic_subscription.email) == 0
    error_message = "by default the topic has no key and no subscriber"
  }

  assert {
    condition     = one(data.aws_iam_policy_document.topic.statement[0].principals).identifiers == toset(["arn:aws:iam::111122223333:root"])
    error_message = "of principals, only this account's are let in"
  }

  assert {
    condition     = data.aws_iam_policy_document.topic.statement[1].effect == "Deny" && one(data.aws_iam_policy_document.topic.statement[1].condition).variable == "aws:SecureTransport"
    error_message = "publishing takes TLS"
  }

  assert {
    condition = {
      for statement in slice(data.aws_iam_policy_document.topic.statement, 2, 5) : one(one(statement.principals).identifiers) => {
        for condition in statement.condition : "${condition.test} ${condition.variable}" => one(condition.values)
      }
      } == {
      "events.amazonaws.com" = {
        "ArnLike aws:SourceArn"          = "arn:aws:events:us-east-1:111122223333:rule/lab-*"
        "StringEquals aws:SourceAccount" = "111122223333"
      }
      "cloudwatch.amazonaws.com" = {
        "ArnLike aws:SourceArn"          = "arn:aws:cloudwatch:us-east-1:111122223333:alarm:lab-*"
        "StringEquals aws:SourceAccount" = "111122223333"
      }
      "budgets.amazonaws.com" = {
        "ArnLike aws:SourceArn"          = "arn:aws:budgets::111122223333:*"
        "StringEquals aws:SourceAccount" = "111122223333"
      }
    }
    error_message = "of services, only this account's rules, alarms and budgets are let in"
  }

  assert {
    condition = alltrue([
      for statement in slice(data.aws_iam_policy_document.topic.statement, 2, 5) :
      statement.actions == toset(["sns:Publish"]) && statement.resources == toset(["arn:aws:sns:us-east-1:111122223333:lab-alerts"])
    ])
    error_message = "services may publish, to this topic, and nothing else"
  }
}

run "key_and_emails" {
  command = plan

  variables {
    kms_key_arn  = "arn:aws:kms:us-east-1:111122223333:key/lab"
    alert_emails = ["ops@example.com", "team@example.com"]
  }

  assert {
    condition     = aws_sns_topic.this.kms_master_key_id == "arn:aws:kms:us-east-1:111122223333:key/lab"
    error_message = "the key encrypts the topic"
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
