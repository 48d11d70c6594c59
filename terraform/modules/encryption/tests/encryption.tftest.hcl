mock_provider "aws" {
  override_during = plan

  mock_data "aws_region" {
    defaults = { name = "eu-central-1" }
  }

  mock_data "aws_caller_identity" {
    defaults = { account_id = "111122223333" }
  }

  mock_data "aws_partition" {
    defaults = { partition = "aws", dns_suffix = "amazonaws.com" }
  }

  mock_data "aws_iam_policy_document" {
    defaults = { json = "{\"Version\":\"2012-10-17\",\"Statement\":[]}" }
  }

  mock_resource "aws_kms_key" {
    defaults = { arn = "arn:aws:kms:eu-central-1:111122223333:key/1", key_id = "1" }
  }
}

variables {
  name = "test"
}

run "defaults" {
  command = plan

  assert {
    condition     = aws_kms_key.this.enable_key_rotation && aws_kms_key.this.deletion_window_in_days == 30
    error_message = "the key rotates, and a destroy can be regretted for a month"
  }

  assert {
    condition     = aws_kms_alias.this.name == "alias/test" && aws_kms_alias.this.target_key_id == "1" && aws_kms_key_policy.this.key_id == "1"
    error_message = "alias and policy are the key's"
  }

  assert {
    condition     = alltrue([for statement in data.aws_iam_policy_document.this.statement : statement.resources == toset(["arn:aws:kms:eu-central-1:111122223333:key/1"])])
    error_message = "every statement names the key"
  }

  assert {
    condition = {
      for statement in data.aws_iam_policy_document.this.statement : statement.sid => one([for principal in statement.principals : principal.identifiers])
      } == {
      AccountAdministers           = toset(["arn:aws:iam::111122223333:root"])
      AccountUsesThroughServices   = toset(["arn:aws:iam::111122223333:root"])
      AccountGrantsThroughServices = toset(["arn:aws:iam::111122223333:root"])
      VolumesOfInstances           = toset(["*"])
      AttachVolumesToInstances     = toset(["*"])
      LinkedFileSystems            = toset(["*"])
      Logs                         = toset(["logs.eu-central-1.amazonaws.com"])
      EventsToTopics               = toset(["events.amazonaws.com"])
      AlarmsAndBudgetsToTopics     = toset(["budgets.amazonaws.com", "cloudwatch.amazonaws.com"])
    }
    error_message = "these and no others"
  }

  assert {
    condition = {
      for statement in data.aws_iam_policy_document.this.statement : statement.sid => {
        for condition in statement.condition : "${condition.test} ${condition.variable}" => join(" ", condition.values)
      } if !contains(["VolumesOfInstances", "AttachVolumesToInstances"], statement.sid)
      } == {
      AccountAdministers           = {}
      AccountUsesThroughServices   = { "StringEquals kms:ViaService" = "ec2.eu-central-1.amazonaws.com ecr.eu-central-1.amazonaws.com fsx.eu-central-1.amazonaws.com s3.eu-central-1.amazonaws.com sns.eu-central-1.amazonaws.com" }
      AccountGrantsThroughServices = { "StringEquals kms:ViaService" = "ec2.eu-central-1.amazonaws.com ecr.eu-central-1.amazonaws.com fsx.eu-central-1.amazonaws.com", "Bool kms:GrantIsForAWSResource" = "true" }
      LinkedFileSystems = {
        "StringEquals kms:CallerAccount" = "111122223333"
        "ArnLike aws:PrincipalArn"       = "arn:aws:iam::111122223333:role/aws-service-role/s3.data-source.lustre.fsx.amazonaws.com/AWSServiceRoleForFSxS3Access_*"
        "StringEquals kms:ViaService"    = "s3.eu-central-1.amazonaws.com"
      }
      Logs                     = { "ArnLike kms:EncryptionContext:aws:logs:arn" = "arn:aws:logs:eu-central-1:111122223333:log-group:*test*" }
      EventsToTopics           = { "ArnLike kms:EncryptionContext:aws:sns:topicArn" = "arn:aws:sns:eu-central-1:111122223333:test*" }
      AlarmsAndBudgetsToTopics = { "StringEquals aws:SourceAccount" = "111122223333", "ArnLike kms:EncryptionContext:aws:sns:topicArn" = "arn:aws:sns:eu-central-1:111122223333:test*" }
    }
    error_message = "services use the key for this account's resources only"
  }

  assert {
    condition = alltrue([
      for statement in data.aws_iam_policy_document.this.statement : alltrue([
        for condition in statement.condition : (
          condition.variable == "kms:CallerAccount" ? condition.values == tolist(["111122223333"])
          : condition.variable == "kms:GrantIsForAWSResource" ? condition.values == tolist(["true"])
          : condition.variable == "aws:PrincipalArn" && condition.test == "ArnEquals" && alltrue([
            for arn in condition.values : startswith(arn, "arn:aws:iam::111122223333:role/aws-service-role/") && !strcontains(arn, "*")
          ])
        )
      ]) && length(statement.condition) == (statement.sid == "VolumesOfInstances" ? 2 : 3)
      if contains(["VolumesOfInstances", "AttachVolumesToInstances"], statement.sid)
    ])
    error_message = "what is open to every principal is closed again to all but named service-linked roles of this account"
  }

  assert {
    condition = alltrue([
      for statement in data.aws_iam_policy_document.this.statement : length(setintersection(statement.actions, ["kms:*", "kms:Decrypt", "kms:Encrypt", "kms:GenerateDataKey*", "kms:CreateGrant"])) == 0
      if statement.sid == "AccountAdministers"
    ])
    error_message = "who administers the key does not decrypt with it"
  }
}

run "refuses_a_short_window" {
  command = plan

  variables {
    deletion_window_days = 6
  }

  expect_failures = [var.deletion_window_days]
}

run "refuses_odd_names" {
  command = plan

  variables {
    name = "aws/test"
  }

  expect_failures = [var.name]
}
