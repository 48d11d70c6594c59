data "aws_caller_identity" "current" {}

data "aws_partition" "current" {}

data "aws_region" "current" {}

locals {
  account_id = data.aws_caller_identity.current.account_id
  partition  = data.aws_partition.current.partition
  region     = data.aws_region.current.name

  # AWS's services that may publish, each only for what carries the stack's name. All of them say for which
  # resource and account, EventBridge by its guide's page "Cross-service confused deputy prevention",
  # https://docs.aws.amazon.com/eventbridge/latest/userguide/cross-service-confused-deputy-prevention.html
  # (read in November 2026).
  publishers = {
    EventBridge = { service = "events.amazonaws.com", source = "arn:${local.partition}:events:${local.region}:${local.account_id}:rule/${var.name}-*" }
    Alarms      = { service = "cloudwatch.amazonaws.com", source = "arn:${local.partition}:cloudwatch:${local.region}:${local.account_id}:alarm:${var.name}-*" }
    Budgets     = { service = "budgets.amazonaws.com", source = "arn:${local.partition}:budgets::${local.account_id}:*" }
  }
}

################################################################################
# Topic
################################################################################

resource "aws_sns_topic" "this" {
  name              = "${var.name}-alerts"
  kms_master_key_id = var.kms_key_arn
}

resource "aws_sns_topic_subscription" "email" {
  for_each = var.alert_emails

  topic_arn = aws_sns_topic.this.arn
  protocol  = "email"
  endpoint  = each.value
}

################################################################################
# Who may publish
################################################################################

data "aws_iam_policy_document" "topic" {
  # Who in this account may publish or subscribe is up to each principal's own policies.
  statement {
    sid       = "OwnAccount"
    actions   = ["sns:Publish", "sns:Subscribe", "sns:GetTopicAttributes", "sns:ListSubscriptionsByTopic"]
    resources = [aws_sns_topic.this.arn]

    principals {
      type        = "AWS"
      identifiers = ["arn:${local.partition}:iam::${local.account_id}:root"]
    }
  }

  statement {
    sid       = "TlsOnly"
    effect    = "Deny"
    actions   = ["sns:Publish"]
    resources = [aws_sns_topic.this.arn]

    principals {
      type        = "*"
      identifiers = ["*"]
    }

    condition {
      test     = "Bool"
      variable = "aws:SecureTransport"
      values   = ["false"]
    }
  }

  dynamic "statement" {
    for_each = local.publishers

    content {
      sid       = statement.key
      actions   = ["sns:Publish"]
      resources = [aws_sns_topic.this.arn]

      principals {
        type        = "Service"
        identifiers = [statement.value.service]
      }

      condition {
        test     = "ArnLike"
        variable = "aws:SourceArn"
        values   = [statement.value.source]
      }

      condition {
        test     = "StringEquals"
        variable = "aws:SourceAccount"
        values   = [local.account_id]
      }
    }
  }
}

resource "aws_sns_topic_policy" "this" {
  arn    = aws_sns_topic.this.arn
  policy = data.aws_iam_policy_document.topic.json
}
