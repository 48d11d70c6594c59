################################################################################
# Flow logs
################################################################################

locals {
  flow_logs = var.flow_log_retention_days == null ? 0 : 1
}

resource "aws_cloudwatch_log_group" "flow_logs" {
  count = local.flow_logs

  name              = "/aws/vpc-flow-logs/${var.name}"
  retention_in_days = var.flow_log_retention_days
  kms_key_id        = var.kms_key_arn
}

data "aws_iam_policy_document" "flow_logs_trust" {
  statement {
    actions = ["sts:AssumeRole"]

    principals {
      type        = "Service"
      identifiers = ["vpc-flow-logs.amazonaws.com"]
    }

    # Only for flow logs of this account: the service acts for every account.
    condition {
      test     = "StringEquals"
      variable = "aws:SourceAccount"
      values   = [local.account_id]
    }

    condition {
      test     = "ArnLike"
      variable = "aws:SourceArn"
      values   = ["arn:${local.partition}:ec2:${local.region}:${local.account_id}:vpc-flow-log/*"]
    }
  }
}

data "aws_iam_policy_document" "flow_logs" {
  count = local.flow_logs

  statement {
    sid       = "WriteLogs"
    actions   = ["logs:CreateLogStream", "logs:DescribeLogStreams", "logs:PutLogEvents"]
    resources = ["${aws_cloudwatch_log_group.flow_logs[0].arn}:*"]
  }

  statement {
    sid       = "FindGroup"
    actions   = ["logs:DescribeLogGroups"]
    resources = ["arn:${local.partition}:logs:${local.region}:${local.account_id}:log-group:*"] # it lists
  }
}

resource "aws_iam_role" "flow_logs" {
  count = local.flow_logs

  name_prefix          = "${var.name}-flow-logs-"
  description          = "VPC flow logs of ${var.name}: write their log group"
  path                 = var.iam_path
  permissions_boundary = var.permissions_boundary_arn
  assume_role_policy   = data.aws_iam_policy_document.flow_logs_trust.json
}

resource "aws_iam_role_policy" "flow_logs" {
  count = local.flow_logs

  name   = "write-logs"
  role   = aws_iam_role.flow_logs[0].id
  policy = data.aws_iam_policy_document.flow_logs[0].json
}

resource "aws_flow_log" "this" {
  count = local.flow_logs

  vpc_id                   = aws_vpc.this.id
  traffic_type             = "ALL"
  log_destination          = aws_cloudwatch_log_group.flow_logs[0].arn
  iam_role_arn             = aws_iam_role.flow_logs[0].arn
  max_aggregation_interval = 600

  tags = { Name = var.name }

  # Without it the first records are lost, and the flow log starts with an access error.
  depends_on = [aws_iam_role_policy.flow_logs]
}
