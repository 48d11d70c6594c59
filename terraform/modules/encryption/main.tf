data "aws_caller_identity" "current" {}

data "aws_partition" "current" {}

data "aws_region" "current" {}

locals {
  account_id = data.aws_caller_identity.current.account_id
  partition  = data.aws_partition.current.partition
  dns_suffix = data.aws_partition.current.dns_suffix
  region     = data.aws_region.current.name

  # Those that Batch may start instances with, and that have to open their volumes.
  launching_roles = [
    "autoscaling.amazonaws.com/AWSServiceRoleForAutoScaling",
    "batch.amazonaws.com/AWSServiceRoleForBatch",
    "ec2fleet.amazonaws.com/AWSServiceRoleForEC2Fleet",
    "spot.amazonaws.com/AWSServiceRoleForEC2Spot",
    "spotfleet.amazonaws.com/AWSServiceRoleForEC2SpotFleet",
  ]
  launching_role_arns = [for role in local.launching_roles : "arn:${local.partition}:iam::${local.account_id}:role/aws-service-role/${role}"]
}

################################################################################
# Key
################################################################################

resource "aws_kms_key" "this" {
  description             = "Data of ${var.name}: results, images, logs, alerts, volumes"
  enable_key_rotation     = true
  deletion_window_in_days = var.deletion_window_days
}

resource "aws_kms_alias" "this" {
  name          = "alias/${var.name}"
  target_key_id = aws_kms_key.this.key_id
}

################################################################################
# Who may use it
################################################################################

data "aws_iam_policy_document" "this" {
  # The account stands for its roles: their own policies decide which of them may.
  statement {
    sid = "AccountAdministers"
    actions = [
      "kms:CancelKeyDeletion",
      "kms:CreateAlias",
      "kms:DeleteAlias",
      "kms:DescribeKey",
      "kms:DisableKey",
      "kms:DisableKeyRotation",
      "kms:EnableKey",
      "kms:EnableKeyRotation",
      "kms:GetKeyPolicy",
      "kms:GetKeyRotationStatus",
      "kms:ListGrants",
      "kms:ListKeyPolicies",
      "kms:ListKeyRotations",
      "kms:ListResourceTags",
      "kms:PutKeyPolicy",
      "kms:RetireGrant",
      "kms:RevokeGrant",
      "kms:RotateKeyOnDemand",
      "kms:ScheduleKeyDeletion",
      "kms:TagResource",
      "kms:UntagResource",
      "kms:UpdateAlias",
      "kms:UpdateKeyDescription",
    ]
    resources = [aws_kms_key.this.arn]

    principals {
      type        = "AWS"
      identifiers = ["arn:${local.partition}:iam::${local.account_id}:root"]
    }
  }

  statement {
    sid       = "AccountUsesThroughServices"
    actions   = ["kms:Decrypt", "kms:Encrypt", "kms:GenerateDataKey*", "kms:ReEncrypt*"]
    resources = [aws_kms_key.this.arn]

    principals {
      type        = "AWS"
      identifiers = ["arn:${local.partition}:iam::${local.account_id}:root"]
    }

    condition {
      test     = "StringEquals"
      variable = "kms:ViaService"
      values   = [for service in ["ec2", "ecr", "fsx", "s3", "sns"] : "${service}.${local.region}.${local.dns_suffix}"]
    }
  }

  statement {
    sid       = "AccountGrantsThroughServices"
    actions   = ["kms:CreateGrant"]
    resources = [aws_kms_key.this.arn]

    principals {
      type        = "AWS"
      identifiers = ["arn:${local.partition}:iam::${local.account_id}:root"]
    }

    condition {
      test     = "StringEquals"
      variable = "kms:ViaService"
      values   = [for service in ["ec2", "ecr", "fsx"] : "${service}.${local.region}.${local.dns_suffix}"]
    }

    condition {
      test     = "Bool"
      variable = "kms:GrantIsForAWSResource"
      values   = ["true"]
    }
  }

  # Named by a condition, because a policy whose principal does not exist is refused, and AWS makes
  # these roles on first use. Not under the account's principal: they have no policy of ours.
  statement {
    sid       = "VolumesOfInstances"
    actions   = ["kms:Decrypt", "kms:DescribeKey", "kms:Encrypt", "kms:GenerateDataKey*", "kms:ReEncrypt*"]
    resources = [aws_kms_key.this.arn]

    principals {
      type        = "AWS"
      identifiers = ["*"]
    }

    condition {
      test     = "StringEquals"
      variable = "kms:CallerAccount"
      values   = [local.account_id]
    }

    condition {
      test     = "ArnEquals"
      variable = "aws:PrincipalArn"
      values   = local.launching_role_arns
    }
  }

  statement {
    sid       = "AttachVolumesToInstances"
    actions   = ["kms:CreateGrant"]
    resources = [aws_kms_key.this.arn]

    principals {
      type        = "AWS"
      identifiers = ["*"]
    }

    condition {
      test     = "StringEquals"
      variable = "kms:CallerAccount"
      values   = [local.account_id]
    }

    condition {
      test     = "ArnEquals"
      variable = "aws:PrincipalArn"
      values   = local.launching_role_arns
    }

    condition {
      test     = "Bool"
      variable = "kms:GrantIsForAWSResource"
      values   = ["true"]
    }
  }

  # FSx makes such a role for each file system that it links to a bucket, with no policy for the key.
  statement {
    sid       = "LinkedFileSystems"
    actions   = ["kms:Decrypt", "kms:DescribeKey", "kms:Encrypt", "kms:GenerateDataKey*", "kms:ReEncrypt*"]
    resources = [aws_kms_key.this.arn]

    principals {
      type        = "AWS"
      identifiers = ["*"]
    }

    condition {
      test     = "StringEquals"
      variable = "kms:CallerAccount"
      values   = [local.account_id]
    }

    condition {
      test     = "ArnLike"
      variable = "aws:PrincipalArn"
      values   = ["arn:${local.partition}:iam::${local.account_id}:role/aws-service-role/s3.data-source.lustre.fsx.amazonaws.com/AWSServiceRoleForFSxS3Access_*"]
    }

    condition {
      test     = "StringEquals"
      variable = "kms:ViaService"
      values   = ["s3.${local.region}.${local.dns_suffix}"]
    }
  }

  statement {
    sid       = "Logs"
    actions   = ["kms:Decrypt", "kms:DescribeKey", "kms:Encrypt", "kms:GenerateDataKey*", "kms:ReEncrypt*"]
    resources = [aws_kms_key.this.arn]

    principals {
      type        = "Service"
      identifiers = ["logs.${local.region}.${local.dns_suffix}"]
    }

    condition {
      test     = "ArnLike"
      variable = "kms:EncryptionContext:aws:logs:arn"
      values   = ["arn:${local.partition}:logs:${local.region}:${local.account_id}:log-group:*${var.name}*"]
    }
  }

  # By topic only: for EventBridge a key's policy does not know aws:SourceAccount and aws:SourceArn.
  statement {
    sid       = "EventsToTopics"
    actions   = ["kms:Decrypt", "kms:GenerateDataKey*"]
    resources = [aws_kms_key.this.arn]

    principals {
      type        = "Service"
      identifiers = ["events.amazonaws.com"]
    }

    condition {
      test     = "ArnLike"
      variable = "kms:EncryptionContext:aws:sns:topicArn"
      values   = ["arn:${local.partition}:sns:${local.region}:${local.account_id}:${var.name}*"]
    }
  }

  statement {
    sid       = "AlarmsAndBudgetsToTopics"
    actions   = ["kms:Decrypt", "kms:GenerateDataKey*"]
    resources = [aws_kms_key.this.arn]

    principals {
      type        = "Service"
      identifiers = ["budgets.amazonaws.com", "cloudwatch.amazonaws.com"]
    }

    condition {
      test     = "StringEquals"
      variable = "aws:SourceAccount"
      values   = [local.account_id]
    }

    condition {
      test     = "ArnLike"
      variable = "kms:EncryptionContext:aws:sns:topicArn"
      values   = ["arn:${local.partition}:sns:${local.region}:${local.account_id}:${var.name}*"]
    }
  }
}

# A resource of its own, so that its statements can name the key instead of "*".
resource "aws_kms_key_policy" "this" {
  key_id = aws_kms_key.this.key_id
  policy = data.aws_iam_policy_document.this.json
}
