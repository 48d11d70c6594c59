################################################################################
# Execution role
################################################################################

data "aws_iam_policy_document" "trust" {
  statement {
    actions = ["sts:AssumeRole"]

    principals {
      type        = "Service"
      identifiers = ["airflow.amazonaws.com", "airflow-env.amazonaws.com"]
    }

    # Only for this environment: the service acts for every account.
    condition {
      test     = "StringEquals"
      variable = "aws:SourceAccount"
      values   = [local.account_id]
    }

    condition {
      test     = "ArnLike"
      variable = "aws:SourceArn"
      values   = ["arn:${local.partition}:airflow:${var.region}:${local.account_id}:environment/${local.environment}"]
    }
  }
}

# What MWAA itself needs; what our DAGs call is the core stack's policy.
data "aws_iam_policy_document" "this" {
  statement {
    sid       = "ReportHealth"
    actions   = ["airflow:PublishMetrics"]
    resources = ["arn:${local.partition}:airflow:${var.region}:${local.account_id}:environment/${local.environment}"]
  }

  # MWAA documents these three by wildcard and refuses a role that can't; they end at this bucket.
  statement {
    sid       = "ReadCode"
    actions   = ["s3:GetBucket*", "s3:GetObject*", "s3:List*"]
    resources = [aws_s3_bucket.this.arn, "${aws_s3_bucket.this.arn}/*"]
  }

  statement {
    sid       = "CheckPublicAccess"
    actions   = ["s3:GetAccountPublicAccessBlock"]
    resources = ["*"] # the API takes no resource
  }

  statement {
    sid = "WriteLogs"
    actions = [
      "logs:CreateLogGroup",
      "logs:CreateLogStream",
      "logs:GetLogEvents",
      "logs:GetLogGroupFields",
      "logs:GetLogRecord",
      "logs:GetQueryResults",
      "logs:PutLogEvents",
    ]
    resources = ["arn:${local.partition}:logs:${var.region}:${local.account_id}:log-group:airflow-${local.environment}-*"]
  }

  statement {
    sid       = "FindLogs"
    actions   = ["logs:DescribeLogGroups"]
    resources = ["*"] # MWAA lists them without a prefix
  }

  statement {
    sid       = "PublishMetrics"
    actions   = ["cloudwatch:PutMetricData"]
    resources = ["*"] # the API takes no resource

    condition {
      test     = "StringEquals"
      variable = "cloudwatch:namespace"
      values   = ["AmazonMWAA", "AWS/MWAA"]
    }
  }

  # The queue between scheduler and workers lies in an account of MWAA's.
  statement {
    sid = "UseTaskQueue"
    actions = [
      "sqs:ChangeMessageVisibility",
      "sqs:DeleteMessage",
      "sqs:GetQueueAttributes",
      "sqs:GetQueueUrl",
      "sqs:ReceiveMessage",
      "sqs:SendMessage",
    ]
    resources = ["arn:${local.partition}:sqs:${var.region}:*:airflow-celery-*"]
  }

  # So does the key that encrypts the queue, unless there is one of our own.
  dynamic "statement" {
    for_each = var.kms_key_arn == null ? [1] : []

    content {
      sid           = "UseKeyOfTaskQueue"
      actions       = ["kms:Decrypt", "kms:DescribeKey", "kms:Encrypt", "kms:GenerateDataKey*"]
      not_resources = ["arn:${local.partition}:kms:*:${local.account_id}:key/*"]

      condition {
        test     = "StringEquals"
        variable = "kms:ViaService"
        values   = ["sqs.${var.region}.${local.dns_suffix}"]
      }
    }
  }

  dynamic "statement" {
    for_each = var.kms_key_arn == null ? [] : [var.kms_key_arn]

    content {
      sid       = "UseKey"
      actions   = ["kms:Decrypt", "kms:DescribeKey", "kms:Encrypt", "kms:GenerateDataKey*"]
      resources = [statement.value]

      condition {
        test     = "StringEquals"
        variable = "kms:ViaService"
        values   = [for service in ["s3", "sqs"] : "${service}.${var.region}.${local.dns_suffix}"]
      }
    }
  }
}

resource "aws_iam_role" "this" {
  name                 = "${local.environment}-mwaa"
  description          = "MWAA environment ${local.environment}: run Airflow, and the benchmarks of ${var.name}"
  path                 = var.iam_path
  permissions_boundary = var.permissions_boundary_arn
  assume_role_policy   = data.aws_iam_policy_document.trust.json
}

resource "aws_iam_role_policy" "this" {
  name   = "mwaa"
  role   = aws_iam_role.this.id
  policy = data.aws_iam_policy_document.this.json
}

resource "aws_iam_role_policy_attachment" "core" {
  for_each = toset(["airflow", "airflow-watch"])

  role       = aws_iam_role.this.name
  policy_arn = "arn:${local.partition}:iam::${local.account_id}:policy${var.iam_path}${var.name}-${each.key}"
}
